// Package kafka is how Khata's own programs reach Kafka, and the topics that they use there.
//
// Config says where the brokers are and how to be let in; Topics names the topics; EnsureTopics makes them, and says what
// of them is not as it should be. What is in the topics, and who writes and reads it, is the relay's and the consumers'.
package kafka
