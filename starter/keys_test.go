package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/internal/testkit"
	"orderflow/order"
	"orderflow/store"
)

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	db := testkit.Database(t)
	environ := []string{"DATABASE_URL=" + db.AppURL, "ORDERFLOW_DATA_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	run := func(command interface {
		Run(context.Context, *streams) error
	},
	) (out, errs string, err error) {
		var o, e bytes.Buffer
		err = command.Run(t.Context(), &streams{in: strings.NewReader(""), out: &o, err: &e, environ: environ})
		return o.String(), e.String(), err
	}
	out, said, err := run(keysAdd{Client: "shop", Scopes: []string{"view", "operate"}, Name: "night shift", Person: "ann"})
	require.NoError(t, err)
	require.Regexp(t, `^ofk_[A-Za-z0-9_-]{43}\n$`, out, "nothing but the key, for a script to take")
	key := strings.TrimSpace(out)
	require.NotContains(t, said, key)
	other, _, err := run(keysAdd{Client: "shop", Scopes: []string{"approve"}})
	require.NoError(t, err)
	require.NotEqual(t, out, other)

	st, err := store.Open(t.Context(), db.AppURL, 2, store.Options{})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	hash := sha256.Sum256([]byte(key))
	c, err := st.APIKeyByHash(t.Context(), hash[:])
	require.NoError(t, err)
	require.Contains(t, said, c.KeyID)
	require.Equal(t, order.Actor{Name: "night shift", Person: "ann", Role: order.RoleOperator, Channel: order.ChannelAPI, Authenticated: true}, c.Actor(order.ChannelAPI))

	list, _, err := run(keysList{})
	require.NoError(t, err)
	require.Regexp(t, c.KeyID+` +shop +view,operate +night shift +ann +\S+ \S+ +-\n`, list)
	require.NotContains(t, list, key)

	_, _, err = run(keysRevoke{Key: c.KeyID})
	require.NoError(t, err)
	_, _, err = run(keysRevoke{Key: c.KeyID})
	require.ErrorIs(t, err, exitCode(3))
	_, err = st.APIKeyByHash(t.Context(), hash[:])
	require.True(t, fault.IsCode(err, fault.NotFound), "%v", err)
	list, _, err = run(keysList{})
	require.NoError(t, err)
	require.NotRegexp(t, c.KeyID+`.* -\n`, list)

	for _, bad := range []keysAdd{{}, {Client: " shop"}, {Client: "shop", Name: strings.Repeat("n", 101)}, {Client: "shop", Person: "ann "}} {
		_, _, err = run(bad)
		require.ErrorContains(t, err, "1 to 100 bytes")
	}
}
