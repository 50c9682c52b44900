package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/kafka"
)

// kafkaFlags are the flags of the commands that reach Kafka. User and password are none: everybody on the machine can read command lines.
type kafkaFlags struct {
	brokers       []string
	tls           bool
	ca, cert, key string
	sasl          string
}

// The environment variables that have no flag.
const (
	kafkaUser     = "KHATA_KAFKA_USER"
	kafkaPassword = "KHATA_KAFKA_PASSWORD"
)

func (k *kafkaFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&k.brokers, "kafka", nil, "some of Kafka's brokers, as HOST:PORT,…")
	cmd.Flags().BoolVar(&k.tls, "kafka-tls", false, "encrypt, and check the brokers' certificates")
	cmd.Flags().StringVar(&k.ca, "kafka-ca", "", "file in PEM with the authorities to trust instead of the system's; implies --kafka-tls")
	cmd.Flags().StringVar(&k.cert, "kafka-cert", "", "file in PEM with the client certificate; implies --kafka-tls")
	cmd.Flags().StringVar(&k.key, "kafka-key", "", "file in PEM with its key")
	cmd.Flags().StringVar(&k.sasl, "kafka-sasl", "",
		"plain, scram-sha-256 or scram-sha-512, with the user in "+kafkaUser+" and the password in "+kafkaPassword)
}

// config is a usage error where it could not be used.
func (k *kafkaFlags) config(getenv func(string) string) (kafka.Config, error) {
	c := kafka.Config{
		Brokers: k.brokers, TLS: k.tls, CA: k.ca, Cert: k.cert, Key: k.key,
		SASL: kafka.Mechanism(strings.ToLower(k.sasl)), User: getenv(kafkaUser), Password: getenv(kafkaPassword),
	}
	switch {
	case len(c.Brokers) == 0:
		return c, usagef("--kafka is required, such as broker1:9092,broker2:9092")
	case c.SASL != "" && (c.User == "" || c.Password == ""):
		return c, usagef("--kafka-sasl needs the user in %s and the password in %s", kafkaUser, kafkaPassword)
	case c.SASL == "" && (c.User != "" || c.Password != ""):
		return c, usagef("%s or %s is set: say by --kafka-sasl how to show them, or unset both", kafkaUser, kafkaPassword)
	}
	if _, err := c.Options(); err != nil {
		return c, usagef("%w", err)
	}
	return c, nil
}

// args are the flags again, for another process of this program.
func (k *kafkaFlags) args() []string {
	args := []string{"--kafka", strings.Join(k.brokers, ",")}
	if k.tls {
		args = append(args, "--kafka-tls")
	}
	for flag, value := range map[string]string{"--kafka-ca": k.ca, "--kafka-cert": k.cert, "--kafka-key": k.key, "--kafka-sasl": k.sasl} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	return args
}

// kafkaEnvironment adds to an environment what config reads from this one.
func (a *app) kafkaEnvironment(environment []string) []string {
	for _, name := range []string{kafkaUser, kafkaPassword} {
		if value := a.getenv(name); value != "" {
			environment = append(environment, name+"="+value)
		}
	}
	return environment
}
