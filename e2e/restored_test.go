package e2e

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/internal/testkit"
	"orderflow/sandbox/issuersim"
)

// Goal: a database that comes back from an older copy, with a Temporal that has lost everything, forgets no money and does nothing twice:
// reconciliation finds what was paid and given back since. Method: a copy by PostgreSQL's own means, payments of every kind after it,
// everything killed, the copy put in its place. Not covered: notices, of which receivers get those since the copy again under new
// ids, because the rows that knew the old ones are gone.
func TestDatabaseRestoredFromAnOlderCopy(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateTemporal(t, false)
	w := newWorld(t, onServer(server), with("ORDERFLOW_RECONCILE_GRACE", "100ms"))
	w.webhooks()
	w.place("done", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	w.paid("done", "k-done")
	w.place("unpaid", grant("g", 1, 600))
	w.place("waiting", grant("g", 1, 500), issued("tickets", "t", 1, 100))
	begun := w.call("POST", path("waiting")+"/payments", "k-waiting", map[string]any{"gateway": "stripe", "method": map[string]any{"type": "konbini", "token": "pm_konbini__waiting"}})
	oneOf(t, begun, http.StatusCreated, http.StatusAccepted)
	w.await("the buyer's voucher", func() bool {
		return w.number("SELECT count(*) FROM payment_attempts WHERE order_id = 'waiting' AND status = 'pending'") == 1
	})
	w.stopAll()
	w.databases("DROP DATABASE IF EXISTS "+w.db.Name+"_copy", "CREATE DATABASE "+w.db.Name+"_copy TEMPLATE "+w.db.Name)
	t.Cleanup(func() { w.databases("DROP DATABASE " + w.db.Name + "_copy WITH (FORCE)") })
	w.startStarter()
	w.startWorker()

	// What the copy does not know.
	voucher := w.text("SELECT provider_payment_id FROM payment_attempts WHERE order_id = 'waiting'")
	require.True(t, w.sandbox.Stripe().Challenge(voucher, true), "the buyer's money")
	w.awaitStatus("waiting", "completed")
	w.settled("waiting")
	w.paid("unpaid", "k-unpaid")
	w.place("unheard", grant("g", 1, 600))
	w.paid("unheard", "k-unheard")
	w.refunded("done", "back", 100)
	w.settled("done")
	unknown := append(w.references("unpaid"), w.references("unheard")...)
	require.Len(t, unknown, 2)

	server.Kill()
	w.stopAll()
	w.databases("DROP DATABASE "+w.db.Name+" WITH (FORCE)", "CREATE DATABASE "+w.db.Name+" TEMPLATE "+w.db.Name+"_copy")
	server.Restart()
	require.Equal(t, "open", w.status("waiting"), "the copy is older than its money")
	require.Zero(t, w.number("SELECT count(*) FROM orders WHERE order_id = 'unheard'"))
	w.setup()
	w.startWorker()
	w.reconciled("--gateway", "stripe") // before a buyer can press pay for what the copy takes for unpaid
	w.startStarter()

	w.awaitStatus("waiting", "completed")
	w.await("what went back known", func() bool {
		return w.number("SELECT refunded_minor FROM payments WHERE order_id = 'done'") == 100
	})
	w.await("the rest held by a person", func() bool {
		w.reconciled("--gateway", "stripe")
		return w.number("SELECT count(*) FROM orphan_payments p JOIN reviews r ON r.subject_id = p.orphan_id AND r.status = 'open' AND r.owner <> '' WHERE p.merchant_reference = ANY($1)", unknown) == len(unknown)
	})
	w.settled("done", "waiting")
	assert.Equal(t, "open", w.status("unpaid"), "a list proves nothing: a person says what the payment is")
	assert.Equal(t, 2, w.number("SELECT count(*) FROM orphan_payments"))
	assert.Equal(t, 1, w.number("SELECT count(*) FROM reviews WHERE order_id = 'done' AND status = 'open'"), "money that no refund we know of gave back")
	w.nothingIsLost()
	assert.Len(t, w.sandbox.Taken(""), 4, "nothing is charged twice")
	back, times := w.givenBack(w.references("done")[0])
	assert.EqualValues(t, 100, back, "nothing is given back twice")
	assert.Equal(t, 1, times)
	for _, id := range []string{"done", "waiting"} {
		assert.Len(t, w.sandbox.Issuers().Issuances(issuersim.Filter{OrderID: id}), 1, "%s: issued once", id)
	}
	w.inDoubt = map[string]bool{unknown[0]: true, unknown[1]: true}
	w.moneyAgrees()
	w.goodsAgree()
	w.logAgrees()
	w.recordsAgree()
}

// stopAll ends starter and workers without a moment to tidy up, and leaves no connection to the database.
func (w *world) stopAll() {
	w.starter.kill()
	w.killWorkers()
	w.owner.Reset()
}

// databases runs SQL outside the world's database, which may have no connection then.
func (w *world) databases(sql ...string) {
	w.t.Helper()
	u, err := url.Parse(w.db.OwnerURL)
	require.NoError(w.t, err)
	u.Path = "/postgres"
	ctx := context.WithoutCancel(w.t.Context()) // also in a cleanup
	conn, err := pgx.Connect(ctx, u.String())
	require.NoError(w.t, err)
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range append([]string{"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + w.db.Name + "'"}, sql...) {
		_, err := conn.Exec(ctx, s)
		require.NoError(w.t, err, s)
	}
}
