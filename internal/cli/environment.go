package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// insteadOf is the annotation of a flag that has the flags that it cannot go together with: if the command line has one of
// those, the variable of this one is not looked at.
const insteadOf = "khata_instead_of"

func exclude(cmd *cobra.Command, flag string, others ...string) {
	if err := cmd.Flags().SetAnnotation(flag, insteadOf, others); err != nil {
		panic(err) // There is no such flag.
	}
}

// showVariables adds to the help of each flag the variable that sets it.
func showVariables(cmd *cobra.Command) {
	add := func(f *pflag.Flag) {
		if name := " [" + environmentName(f.Name) + "]"; f.Name != "help" && !strings.HasSuffix(f.Usage, name) {
			f.Usage += name
		}
	}
	cmd.LocalFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		showVariables(sub)
	}
}

// applyEnvironment gives each flag that the command line does not set the value of its variable: KHATA_DATA_DIR for
// --data-dir.
func (a *app) applyEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := a.getenv(environmentName(f.Name))
		if slices.ContainsFunc(f.Annotations[insteadOf], func(other string) bool { return cmd.Flags().Changed(other) }) {
			return
		}
		if f.Changed || value == "" || f.Name == "help" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			failed = usagef("environment variable %s: %w", environmentName(f.Name), err)
		}
	})
	return failed
}

func environmentName(flag string) string {
	return "KHATA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
