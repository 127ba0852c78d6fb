// A transactional message through a gateway, with RocketMQ's own client.
//
//	go run . ADDRESS TOPIC commit|rollback|crash|listen
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: go run . ADDRESS TOPIC commit|rollback|crash|listen")
	}
	address, topic, mode := os.Args[1], os.Args[2], os.Args[3]

	producer, err := rocketmq.NewProducer(
		&rocketmq.Config{
			Endpoint: address,
			Credentials: &credentials.SessionCredentials{
				AccessKey:    os.Getenv("ACCESS_KEY"),
				AccessSecret: os.Getenv("ACCESS_SECRET"),
			},
		},
		rocketmq.WithTopics(topic),
		rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{Check: check}),
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := producer.Start(); err != nil {
		log.Fatal(err)
	}
	defer producer.GracefulStop()

	if mode == "listen" { // answer checks, also about transactions of other processes
		fmt.Println("listening")
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
		<-ended
		return
	}

	message := &rocketmq.Message{Topic: topic, Body: []byte("order 1 from Go")}
	message.SetTag("paid")
	message.SetKeys("order-1")
	message.AddProperty("customer", "7")

	transaction := producer.BeginTransaction()
	receipts, err := producer.SendWithTransaction(context.Background(), message, transaction)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("half message", receipts[0].MessageID)
	// here belongs the local transaction: what the message tells of
	switch mode {
	case "commit":
		err = transaction.Commit() // nil also where it failed: then a check decides
	case "rollback":
		err = transaction.RollBack()
	case "crash":
		os.Exit(1)
	}
	fmt.Println(mode, err)
}

// Looks at what the local transaction left in the database; UNKNOWN is asked again.
func check(message *rocketmq.MessageView) rocketmq.TransactionResolution {
	fmt.Printf("asked about %s: %s\n", message.GetMessageId(), message.GetBody())
	return rocketmq.COMMIT
}
