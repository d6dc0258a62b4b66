// What kafka-go's Reader does with a consumer group, one JSON object per line.
//
//	readers limits BOOTSTRAP GROUP TOPIC            what a Reader with a GroupID refuses, and how its Close leaves the group
//	readers read BOOTSTRAP GROUP TOPIC COUNT        ReadMessage COUNT times: each read commits
//	readers fetch BOOTSTRAP GROUP TOPIC COUNT       FetchMessage COUNT times, then commit the newest of each partition only
//	readers interval BOOTSTRAP GROUP TOPIC COUNT    as read, with CommitInterval 1 s
//	readers member BOOTSTRAP GROUP TOPIC            read until stdin ends
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

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

func reader(interval time.Duration) *kafka.Reader {
	balancers := []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers:           strings.Split(os.Args[2], ","),
		GroupID:           os.Args[3],
		Topic:             os.Args[4],
		GroupBalancers:    balancers,
		MaxWait:           100 * time.Millisecond,
		SessionTimeout:    10 * time.Second,
		HeartbeatInterval: 500 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
		CommitInterval:    interval,
	})
}

func record(message kafka.Message) {
	say(map[string]any{"partition": message.Partition, "offset": message.Offset, "value": string(message.Value)})
}

func limits(ctx context.Context, from *kafka.Reader) {
	_, lagError := from.ReadLag(ctx)
	seekError := from.SetOffset(3)
	say(map[string]any{
		"set_offset": fmt.Sprint(seekError), "read_lag": fmt.Sprint(lagError),
		"offset": from.Offset(), "lag": from.Lag(), "partition": from.Stats().Partition,
	})
}

func read(ctx context.Context, from *kafka.Reader, count int) {
	for i := 0; i < count; i++ {
		message, err := from.ReadMessage(ctx)
		check(err)
		record(message)
	}
}

func fetch(ctx context.Context, from *kafka.Reader, count int) {
	newest := map[int]kafka.Message{}
	for i := 0; i < count; i++ {
		message, err := from.FetchMessage(ctx)
		check(err)
		record(message)
		newest[message.Partition] = message
	}
	for _, message := range newest {
		check(from.CommitMessages(ctx, message))
	}
}

func member(from *kafka.Reader) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for {
		message, err := from.ReadMessage(ctx)
		if err != nil {
			return
		}
		record(message)
	}
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	count := 0
	if len(os.Args) > 5 {
		count, _ = strconv.Atoi(os.Args[5])
	}
	var from *kafka.Reader
	switch os.Args[1] {
	case "limits":
		from = reader(0)
		limits(ctx, from)
	case "read":
		from = reader(0)
		read(ctx, from, count)
	case "fetch":
		from = reader(0)
		fetch(ctx, from, count)
	case "interval":
		from = reader(time.Second)
		read(ctx, from, count)
	case "member":
		from = reader(0)
		member(from)
	}
	check(from.Close())
	say(map[string]any{"closed": true})
}
