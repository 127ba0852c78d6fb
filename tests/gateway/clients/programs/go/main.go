// Does what it reads, a line at a time: see driven.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var (
	answer      atomic.Int32
	topic       string
	transaction rocketmq.Transaction
	answers     = map[string]rocketmq.TransactionResolution{
		"commit": rocketmq.COMMIT, "rollback": rocketmq.ROLLBACK, "unknown": rocketmq.UNKNOWN,
	}
)

func main() {
	topic = os.Args[2]
	answer.Store(int32(rocketmq.COMMIT))
	producer, err := rocketmq.NewProducer(
		&rocketmq.Config{Endpoint: os.Args[1], NameSpace: os.Getenv("NAMESPACE"), Credentials: &credentials.SessionCredentials{
			AccessKey: os.Getenv("ACCESS_KEY"), AccessSecret: os.Getenv("ACCESS_SECRET"),
		}},
		rocketmq.WithTopics(topic),
		rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{Check: check}),
	)
	if err == nil {
		err = producer.Start()
	}
	if err != nil {
		fmt.Println(failed(err))
		os.Exit(1)
	}
	defer producer.GracefulStop()
	fmt.Println("READY")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		said, err := done(producer, strings.Fields(lines.Text()))
		if err != nil {
			said = failed(err)
		}
		fmt.Println(said)
	}
}

func done(producer rocketmq.Producer, words []string) (string, error) {
	switch words[0] {
	case "topic":
		topic = words[1]
		return "OK", nil
	case "answer":
		answer.Store(int32(answers[words[1]]))
		return "OK", nil
	case "commit":
		return "OK", transaction.Commit()
	case "rollback":
		return "OK", transaction.RollBack()
	case "crash":
		os.Exit(9)
	}
	size, _ := strconv.Atoi(words[3])
	body := make([]byte, size)
	copy(body, words[2])
	message := &rocketmq.Message{Topic: topic, Body: body}
	message.SetTag("paid")
	message.SetKeys("k1")
	message.AddProperty("customer", "7")
	var receipts []*rocketmq.SendReceipt
	var err error
	switch words[1] {
	case "half":
		transaction = producer.BeginTransaction()
		receipts, err = producer.SendWithTransaction(context.Background(), message, transaction)
	case "fifo":
		message.SetMessageGroup("g1")
		receipts, err = producer.Send(context.Background(), message)
	case "delay":
		message.SetDelayTimestamp(time.Now().Add(2 * time.Second))
		receipts, err = producer.Send(context.Background(), message)
	default:
		receipts, err = producer.Send(context.Background(), message)
	}
	if err != nil {
		return "", err
	}
	return "OK " + receipts[0].MessageID, nil
}

func failed(err error) string {
	code := int32(0)
	if status, ok := rocketmq.AsErrRpcStatus(err); ok {
		code = status.GetCode()
	}
	return fmt.Sprintf("FAILED %d %s", code, strings.ReplaceAll(err.Error(), "\n", " "))
}

func check(message *rocketmq.MessageView) rocketmq.TransactionResolution {
	body := message.GetBody()
	tag := ""
	if message.GetTag() != nil {
		tag = *message.GetTag()
	}
	fmt.Println("CHECK", strings.TrimRight(string(body), "\x00"), len(body), tag,
		strings.Join(message.GetKeys(), ","), message.GetProperties()["customer"])
	return rocketmq.TransactionResolution(answer.Load())
}
