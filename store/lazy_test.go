package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"orderflow/internal/testkit"
	"orderflow/store"
)

// A write that does not wait for the disk must not make the next transaction on its connection, which may be about money,
// not wait either.
func TestLazyWritesLeaveTheConnectionAsItWas(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(testkit.Database(t).AppURL)
	require.NoError(t, err)
	cfg.MaxConns = 1
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := store.New(pool, store.Options{})
	k := store.Key{Client: "shop", Operation: "POST /v1/orders", Key: "k"}
	st, err := s.KeyClaim(t.Context(), k, []byte("f"), "subject", "token", time.Minute)
	require.NoError(t, err)
	require.True(t, st.Mine)
	done, err := s.KeyComplete(t.Context(), k, "token", 201, []byte("sealed"))
	require.NoError(t, err)
	require.True(t, done)
	unchanged := func() {
		t.Helper()
		var now string
		require.NoError(t, pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&now))
		require.Equal(t, "local", now)
	}
	unchanged()
	due, err := s.DeliveriesClaim(t.Context(), "o", time.Minute)
	require.NoError(t, err)
	require.Empty(t, due)
	unchanged()
	require.NoError(t, s.DeliveriesRecord(t.Context(), "o", []store.DeliveryResult{{EventID: "e", Receiver: "mail", Taken: true}}))
	unchanged()
	rested, err := s.Rest(t.Context(), "o", 1)
	require.NoError(t, err)
	require.False(t, rested)
	unchanged()
}
