package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// exactArgs takes one argument for each name, as they stand in the usage line, and otherwise says which is missing: cobra only counts them.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch given := len(args); {
		case given == 0:
			return usagef("give the %s: %s", and(names, " and the "), usageLine(cmd))
		case given < len(names):
			return usagef("give the %s, too: %s", and(names[given:], " and the "), usageLine(cmd))
		case given > len(names) && len(names) == 1:
			return usagef("one %s is enough: %s", names[0], usageLine(cmd))
		case given > len(names):
			return usagef("one %s are enough: %s", and(names, " and one "), usageLine(cmd))
		}
		return nil
	}
}

// atLeastOneArg takes one or more of a name.
func atLeastOneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("give at least one %s: %s", name, usageLine(cmd))
		}
		return nil
	}
}

// atMostOneArg takes one of a name, or none.
func atMostOneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("one %s is enough: %s", name, usageLine(cmd))
		}
		return nil
	}
}

// and joins what is to be read as a sentence: a, b and c.
func and(words []string, last string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return strings.Join(words[:n], ", ") + last + words[n]
}

// usageLine is how a command is written.
func usageLine(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }
