package kafka

// DialLoopback is dialLoopback.
var DialLoopback = dialLoopback
