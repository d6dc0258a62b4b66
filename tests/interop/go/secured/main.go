// What kafka-go and franz-go do at a secured cluster: write one record and read it, or be refused.
//
// One attempt a line of standard input, JSON; one line of JSON for each, in the same order: how long it took, the
// error, and what was read.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	kafkasasl "github.com/segmentio/kafka-go/sasl"
	kafkaplain "github.com/segmentio/kafka-go/sasl/plain"
	kafkascram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const limit = 40 * time.Second

type attempt struct {
	Client, Bootstrap, Topic, Value  string
	Mechanism, User, Password, Token string
	Authority, Certificate, Key      string
	Partition, PauseMs               int
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Without an authority: no TLS.
func (a attempt) tls() *tls.Config {
	if a.Authority == "" {
		return nil
	}
	text, err := os.ReadFile(a.Authority)
	check(err)
	made := &tls.Config{RootCAs: x509.NewCertPool()}
	made.RootCAs.AppendCertsFromPEM(text)
	if a.Certificate != "" {
		own, err := tls.LoadX509KeyPair(a.Certificate, a.Certificate)
		check(err)
		made.Certificates = []tls.Certificate{own}
	}
	return made
}

func (a attempt) brokers() []string { return strings.Split(a.Bootstrap, ",") }

// --- kafka-go

func (a attempt) kafkaGoMechanism() kafkasasl.Mechanism {
	switch a.Mechanism {
	case "PLAIN":
		return kafkaplain.Mechanism{Username: a.User, Password: a.Password}
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
		algorithm := kafkascram.SHA256
		if a.Mechanism == "SCRAM-SHA-512" {
			algorithm = kafkascram.SHA512
		}
		made, err := kafkascram.Mechanism(algorithm, a.User, a.Password)
		check(err)
		return made
	}
	return nil
}

func (a attempt) kafkaGo(ctx context.Context) (string, error) {
	transport := &kafka.Transport{TLS: a.tls(), SASL: a.kafkaGoMechanism()}
	defer transport.CloseIdleConnections()
	to := &kafka.Writer{Addr: kafka.TCP(a.brokers()...), Topic: a.Topic, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond, Transport: transport, MaxAttempts: 3,
		Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return a.Partition })}
	defer to.Close()
	if err := to.WriteMessages(ctx, kafka.Message{Value: []byte(a.Value)}); err != nil {
		return "", err
	}
	if a.PauseMs > 0 { // the session ends: it has to connect anew
		time.Sleep(time.Duration(a.PauseMs) * time.Millisecond)
		if err := to.WriteMessages(ctx, kafka.Message{Value: []byte(a.Value)}); err != nil {
			return "", err
		}
	}
	from := kafka.NewReader(kafka.ReaderConfig{Brokers: a.brokers(), Topic: a.Topic, Partition: a.Partition,
		MaxBytes: 10e6, MaxWait: 100 * time.Millisecond,
		Dialer: &kafka.Dialer{Timeout: 10 * time.Second, TLS: a.tls(), SASLMechanism: a.kafkaGoMechanism()}})
	defer from.Close()
	for {
		message, err := from.ReadMessage(ctx)
		if err != nil || string(message.Value) == a.Value {
			return string(message.Value), err
		}
	}
}

// --- franz-go

func (a attempt) franzGoMechanism() sasl.Mechanism {
	login := scram.Auth{User: a.User, Pass: a.Password}
	switch a.Mechanism {
	case "PLAIN":
		return plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return login.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: a.Token}.AsMechanism()
	}
	return nil
}

func (a attempt) franzGo(ctx context.Context) (string, error) {
	options := []kgo.Opt{kgo.SeedBrokers(a.brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{a.Topic: {int32(a.Partition): kgo.NewOffset().AtStart()}})}
	if config := a.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := a.franzGoMechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	record := func() *kgo.Record {
		return &kgo.Record{Topic: a.Topic, Partition: int32(a.Partition), Value: []byte(a.Value)}
	}
	if err := client.ProduceSync(ctx, record()).FirstErr(); err != nil {
		return "", err
	}
	if a.PauseMs > 0 { // the session ends: it authenticates again on the same connection
		time.Sleep(time.Duration(a.PauseMs) * time.Millisecond)
		if err := client.ProduceSync(ctx, record()).FirstErr(); err != nil {
			return "", err
		}
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, found := range fetches.Records() {
			if string(found.Value) == a.Value {
				return string(found.Value), nil
			}
		}
	}
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	answers := []chan map[string]any{}
	for input.Scan() {
		var a attempt
		check(json.Unmarshal(input.Bytes(), &a))
		answer := make(chan map[string]any, 1)
		answers = append(answers, answer)
		go func() {
			ctx, stop := context.WithTimeout(context.Background(), limit)
			defer stop()
			run := a.kafkaGo
			if a.Client == "franz-go" {
				run = a.franzGo
			}
			begun := time.Now()
			found, err := run(ctx)
			text := ""
			if err != nil {
				text = err.Error()
			}
			answer <- map[string]any{"read": found, "error": text, "seconds": time.Since(begun).Seconds(),
				"late": errors.Is(err, context.DeadlineExceeded)}
		}()
	}
	for _, answer := range answers {
		text, err := json.Marshal(<-answer)
		check(err)
		fmt.Println(string(text))
	}
}
