// A member of a consumer group with franz-go, which says what tests/interop/group_member.py says.
//
//	members BOOTSTRAP GROUP TOPIC PROTOCOL INSTANCE
//
// INSTANCE is - for none. A topic that begins with ^ is a pattern. The member leaves when its input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type partition struct {
	topic string
	index int32
}

// output says what changes; franz-go calls it from goroutines of its own.
type output struct {
	lock sync.Mutex
	held map[partition]bool
}

func (o *output) say(line map[string]any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func (o *output) change(partitions map[string][]int32, holds bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for topic, indexes := range partitions {
		for _, index := range indexes {
			if holds {
				o.held[partition{topic, index}] = true
			} else {
				delete(o.held, partition{topic, index})
			}
		}
	}
	assigned := [][]any{}
	for each := range o.held {
		assigned = append(assigned, []any{each.topic, each.index})
	}
	sort.Slice(assigned, func(a, b int) bool { return fmt.Sprint(assigned[a]) < fmt.Sprint(assigned[b]) })
	o.say(map[string]any{"assigned": assigned})
}

func (o *output) record(record *kgo.Record) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.say(map[string]any{"record": []any{record.Topic, record.Partition, record.Offset, string(record.Value)}})
}

func main() {
	bootstrap, group, topic, protocol, instance := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	out := &output{held: map[partition]bool{}}
	gains := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { out.change(given, true) }
	loses := func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { out.change(taken, false) }
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.AutoCommitInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(gains),
		kgo.OnPartitionsRevoked(loses),
		kgo.OnPartitionsLost(loses),
	}
	if strings.HasPrefix(topic, "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if instance != "-" {
		options = append(options, kgo.InstanceID(instance))
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	} else {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { fmt.Fprintln(os.Stderr, err) })
		fetches.EachRecord(out.record)
	}
	client.Close()
}
