// What kafka-go does with topics and no group, one JSON object per line.
//
//	topics write BOOTSTRAP TOPIC COUNT BASE_MS            a Writer per codec: partition 0 uncompressed, 1 gzip, 2 snappy, ...
//	topics read BOOTSTRAP TOPIC PARTITION OFFSET COUNT    a Reader after SetOffset
//	topics since BOOTSTRAP TOPIC PARTITION MS COUNT       a Reader after SetOffsetAt
//	topics create BOOTSTRAP TOPIC PARTITIONS              through the controller's Conn
//	topics delete BOOTSTRAP TOPIC
//	topics conn BOOTSTRAP TOPIC                           the low-level Conn: write, read a batch, seek, ask for offsets
//	topics balance BOOTSTRAP TOPIC COUNT                  LeastBytes over all partitions
//	topics turns BOOTSTRAP TOPIC COUNT                    RoundRobin over all partitions
//	topics async BOOTSTRAP TOPIC COUNT                    Async, delivered by Close
//	topics autocreate BOOTSTRAP TOPIC                     AllowAutoTopicCreation and its retry loop
//	topics several BOOTSTRAP TOPIC OTHER_TOPIC            one Writer, the topic on each message
//	topics cancel BOOTSTRAP TOPIC                         a read that its context ends
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

var codecs = []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}

func say(line map[string]any) {
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(place int) int {
	value, err := strconv.Atoi(os.Args[place])
	check(err)
	return value
}

func brokers() []string { return strings.Split(os.Args[2], ",") }

func topic() string { return os.Args[3] }

func writer() *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(brokers()...), Topic: topic(), RequiredAcks: kafka.RequireAll,
		BatchTimeout: 20 * time.Millisecond}
}

func write(ctx context.Context) {
	count, base := number(4), time.UnixMilli(int64(number(5)))
	for partition, codec := range codecs {
		to := writer()
		to.Compression = codec
		to.Balancer = kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition })
		messages := make([]kafka.Message, count)
		for n := range messages {
			messages[n] = kafka.Message{
				Key:     []byte(fmt.Sprintf("k%d", n)),
				Value:   []byte(strings.Repeat(fmt.Sprintf("value %d ", n), 20)),
				Time:    base.Add(time.Duration(n) * time.Second),
				Headers: []kafka.Header{{Key: "from", Value: []byte("kafka-go")}},
			}
		}
		check(to.WriteMessages(ctx, messages...))
		check(to.Close())
	}
}

func reader(partition int) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers(), Topic: topic(), Partition: partition, MaxBytes: 10e6, MaxWait: 100 * time.Millisecond,
		MaxAttempts: 50,
	})
}

func show(ctx context.Context, from *kafka.Reader, count int) {
	for i := 0; i < count; i++ {
		message, err := from.ReadMessage(ctx)
		check(err)
		headers := [][]string{}
		for _, header := range message.Headers {
			headers = append(headers, []string{header.Key, string(header.Value)})
		}
		say(map[string]any{
			"topic": message.Topic, "partition": message.Partition, "offset": message.Offset,
			"key": string(message.Key), "value": string(message.Value), "ms": message.Time.UnixMilli(), "headers": headers,
		})
	}
	check(from.Close())
}

func controller(ctx context.Context) *kafka.Conn {
	conn, err := kafka.DialContext(ctx, "tcp", brokers()[0])
	check(err)
	defer conn.Close()
	at, err := conn.Controller()
	check(err)
	to, err := kafka.DialContext(ctx, "tcp", net.JoinHostPort(at.Host, strconv.Itoa(at.Port)))
	check(err)
	return to
}

func conn(ctx context.Context) {
	to, err := kafka.DialLeader(ctx, "tcp", brokers()[0], topic(), 0)
	check(err)
	check(to.SetDeadline(time.Now().Add(20 * time.Second)))
	_, err = to.WriteMessages(kafka.Message{Value: []byte("one!")}, kafka.Message{Value: []byte("two!")},
		kafka.Message{Value: []byte("three!")})
	check(err)
	batch := to.ReadBatch(1, 1e6)
	values, room := []string{}, make([]byte, 10e3)
	for len(values) < 3 {
		size, err := batch.Read(room)
		check(err)
		values = append(values, string(room[:size]))
	}
	check(batch.Close())
	at, err := to.Seek(1, kafka.SeekAbsolute)
	check(err)
	message, err := to.ReadMessage(1e6)
	check(err)
	first, last, err := to.ReadOffsets()
	check(err)
	partitions, err := to.ReadPartitions(topic())
	check(err)
	say(map[string]any{"values": values, "seek": at, "next": string(message.Value), "first": first, "last": last,
		"partitions": len(partitions), "leader": partitions[0].Leader.ID})
	check(to.Close())
}

func balance(ctx context.Context, balancer kafka.Balancer) {
	to := writer()
	to.Balancer = balancer
	messages := make([]kafka.Message, number(4))
	for n := range messages {
		messages[n] = kafka.Message{Key: []byte("the same key"), Value: []byte(strings.Repeat("x", 1+n%100))}
	}
	check(to.WriteMessages(ctx, messages...))
	check(to.Close())
}

func async(ctx context.Context) {
	delivered := 0
	to := writer()
	to.Async = true
	to.Completion = func(messages []kafka.Message, err error) {
		check(err)
		delivered += len(messages)
	}
	for n := 0; n < number(4); n++ {
		check(to.WriteMessages(ctx, kafka.Message{Value: []byte(fmt.Sprint(n))}))
	}
	check(to.Close())
	say(map[string]any{"delivered": delivered})
}

func autocreate(ctx context.Context) {
	to := writer()
	to.AllowAutoTopicCreation = true
	defer to.Close()
	for ctx.Err() == nil {
		attempt, stop := context.WithTimeout(ctx, 10*time.Second)
		err := to.WriteMessages(attempt, kafka.Message{Key: []byte("Key-A"), Value: []byte("Hello World!")},
			kafka.Message{Key: []byte("Key-B"), Value: []byte("One!")})
		stop()
		if errors.Is(err, kafka.LeaderNotAvailable) || errors.Is(err, context.DeadlineExceeded) {
			time.Sleep(250 * time.Millisecond)
			continue
		}
		check(err)
		say(map[string]any{"written": true})
		return
	}
	check(errors.New("the topic did not come to be"))
}

func several(ctx context.Context) {
	to := writer()
	to.Topic = ""
	check(to.WriteMessages(ctx, kafka.Message{Topic: topic(), Value: []byte("for the first")},
		kafka.Message{Topic: os.Args[4], Value: []byte("for the second")}))
	without := to.WriteMessages(ctx, kafka.Message{Value: []byte("for nobody")})
	check(to.Close())
	both := writer()
	twice := both.WriteMessages(ctx, kafka.Message{Topic: os.Args[4], Value: []byte("for whom")})
	check(both.Close())
	say(map[string]any{"without": fmt.Sprint(without), "twice": fmt.Sprint(twice)})
}

func cancel(ctx context.Context) {
	from := reader(0)
	check(from.SetOffset(kafka.LastOffset))
	soon, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	_, err := from.ReadMessage(soon)
	say(map[string]any{"error": fmt.Sprint(err), "deadline": errors.Is(err, context.DeadlineExceeded)})
	check(from.Close())
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	switch os.Args[1] {
	case "write":
		write(ctx)
	case "read":
		from := reader(number(4))
		check(from.SetOffset(int64(number(5))))
		show(ctx, from, number(6))
	case "since":
		from := reader(number(4))
		check(from.SetOffsetAt(ctx, time.UnixMilli(int64(number(5)))))
		show(ctx, from, number(6))
	case "create":
		to := controller(ctx)
		check(to.CreateTopics(kafka.TopicConfig{Topic: topic(), NumPartitions: number(4), ReplicationFactor: 1}))
	case "delete":
		check(controller(ctx).DeleteTopics(topic()))
	case "conn":
		conn(ctx)
	case "balance":
		balance(ctx, &kafka.LeastBytes{})
	case "turns":
		balance(ctx, &kafka.RoundRobin{})
	case "async":
		async(ctx)
	case "autocreate":
		autocreate(ctx)
	case "several":
		several(ctx)
	case "cancel":
		cancel(ctx)
	default:
		check(fmt.Errorf("what is %q?", os.Args[1]))
	}
}
