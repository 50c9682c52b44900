package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// applyEnvironment gives each flag that the command line does not set the value of its variable: KHATA_DATA_DIR for
// --data-dir.
func (a *app) applyEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := a.getenv(environmentName(f.Name))
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
