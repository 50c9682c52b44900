package cli

import "fmt"

// none says that a list is empty, to people: a program sees that nothing is printed.
func (a *app) none() {
	if !a.json {
		_, _ = fmt.Fprintln(a.Err, "none")
	}
}
