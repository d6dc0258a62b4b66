// franz-go in the same two roles as tests/interop/transaction_client.py.
//
//	transactions BOOTSTRAP produce ID TIMEOUT_MS
//	transactions BOOTSTRAP process ID GROUP INPUT OUTPUT COUNT
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var input = bufio.NewScanner(os.Stdin)

func say(line map[string]any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// name is Kafka's name of an error, if it is one of Kafka's.
func name(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

type producer struct {
	client *kgo.Client
	failed error
}

func (p *producer) call(ctx context.Context, words []string) error {
	switch words[0] {
	case "init":
		_, _, err := p.client.ProducerID(ctx)
		return err
	case "begin":
		p.failed = nil
		return p.client.BeginTransaction()
	case "send":
		partition, _ := strconv.Atoi(words[2])
		record := &kgo.Record{Topic: words[1], Partition: int32(partition), Value: []byte(words[3])}
		p.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil && p.failed == nil {
				p.failed = err
			}
		})
		return nil
	case "flush":
		return errors.Join(p.client.Flush(ctx), p.failed)
	case "commit":
		if err := errors.Join(p.client.Flush(ctx), p.failed); err != nil {
			return err
		}
		return p.client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		if err := p.client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		return p.client.EndTransaction(ctx, kgo.TryAbort)
	}
	return fmt.Errorf("unknown command %s", words[0])
}

func produce(brokers []string, id string, timeout time.Duration) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	p := &producer{client: client}
	for input.Scan() && input.Text() != "" {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		if err := p.call(ctx, strings.Fields(input.Text())); err != nil {
			say(map[string]any{"error": name(err), "text": err.Error()})
		} else {
			say(map[string]any{"ok": true})
		}
		stop()
	}
}

func process(brokers []string, id, group, source, target string, count int) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(brokers...), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	done := 0
	for done < count {
		fetches := session.PollRecords(ctx, 3)
		check(fetches.Err0())
		if fetches.NumRecords() == 0 {
			continue
		}
		check(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: target, Partition: record.Partition, Value: record.Value}, nil)
		})
		check(session.Client().Flush(ctx))
		say(map[string]any{"sent": fetches.NumRecords()})
		input.Scan()
		committed, err := session.End(ctx, kgo.TryCommit)
		check(err)
		if committed {
			done += fetches.NumRecords()
			say(map[string]any{"committed": done})
		}
	}
}

func main() {
	brokers := strings.Split(os.Args[1], ",")
	if os.Args[2] == "produce" {
		timeout, _ := strconv.Atoi(os.Args[4])
		produce(brokers, os.Args[3], time.Duration(timeout)*time.Millisecond)
		return
	}
	count, _ := strconv.Atoi(os.Args[7])
	process(brokers, os.Args[3], os.Args[4], os.Args[5], os.Args[6], count)
}
