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

// noVariable is the annotation of a flag that only the command line sets.
const noVariable = "khata_no_variable"

// onlyOnCommandLine is for flags that would do harm if they were set for other commands and not meant for this one.
func onlyOnCommandLine(cmd *cobra.Command, flag string) {
	if err := cmd.Flags().SetAnnotation(flag, noVariable, nil); err != nil {
		panic(err) // There is no such flag.
	}
}

func hasVariable(f *pflag.Flag) bool {
	_, none := f.Annotations[noVariable]
	return !none && f.Name != "help"
}

// showVariables adds to the help of each flag the variable that sets it.
func showVariables(cmd *cobra.Command) {
	add := func(f *pflag.Flag) {
		if name := " [" + environmentName(f.Name) + "]"; hasVariable(f) && !strings.HasSuffix(f.Usage, name) {
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
		if f.Changed || value == "" || !hasVariable(f) || failed != nil {
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
