package pgtest

import "fmt"

// Mutate is SQL that changes a function of the database in one place, which must be there: a guard taken out, for a test of
// what then goes wrong.
func Mutate(function, from, to string) string {
	return fmt.Sprintf(`DO $mutate$ DECLARE code text := pg_get_functiondef('%s'::regproc); BEGIN
		ASSERT strpos(code, $m$%s$m$) > 0, 'there is nothing to mutate';
		EXECUTE replace(code, $m$%s$m$, $m$%s$m$);
	END $mutate$`, function, from, from, to)
}
