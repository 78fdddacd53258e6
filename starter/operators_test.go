package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/testkit"
)

func TestOperatorsAreAddedListedAndEnded(t *testing.T) {
	t.Parallel()
	db := testkit.Database(t)
	environ := []string{"DATABASE_URL=" + db.AppURL, "ORDERFLOW_DATA_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	run := func(stdin string, command interface {
		Run(context.Context, *streams) error
	},
	) (string, error) {
		var out, errs bytes.Buffer
		err := command.Run(t.Context(), &streams{in: strings.NewReader(stdin), out: &out, err: &errs, environ: environ})
		return out.String() + errs.String(), err
	}
	const password = "a long enough one"
	_, err := run(password+"\n", operatorsAdd{Login: "ann", Name: "Ann Example", Role: "approver"})
	require.NoError(t, err)
	_, err = run(password, operatorsAdd{Login: "ann", Name: "Another Ann", Role: "viewer"})
	require.ErrorContains(t, err, "taken")
	_, err = run("short\n", operatorsAdd{Login: "bob", Name: "Bob", Role: "viewer"})
	require.ErrorContains(t, err, "too short")
	_, err = run(password, operatorsAdd{Login: "Bob!", Name: "Bob", Role: "viewer"})
	require.ErrorContains(t, err, "a login begins with")
	require.NotContains(t, err.Error(), "Bob!")

	text, err := run("", operatorsList{})
	require.NoError(t, err)
	require.Regexp(t, `ann +Ann Example +approver +\S+ \S+ +-`, text)
	require.NotContains(t, text, "argon2")

	_, err = run("", operatorsDisable{Login: "ann"})
	require.NoError(t, err)
	_, err = run("", operatorsDisable{Login: "ann"})
	require.ErrorIs(t, err, exitCode(3))
	text, err = run("", operatorsList{})
	require.NoError(t, err)
	require.NotRegexp(t, `ann .* -\n`, text)
}
