package omisesim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/sandbox/omisesim"
)

// The bank takes what it argues about when it wins, and no more than is there; the charge and the events say how it stands.
func TestDisputesAreInTheBooks(t *testing.T) {
	t.Parallel()
	w := start(t)
	id, _ := w.charge(t, `"card":"tokn_test_ok__dispute"`)["id"].(string)
	stands := func() any {
		_, c := w.ask(t, "GET", "/charges/"+id, secretKey, "")
		d, _ := c["dispute"].(map[string]any)
		return d["status"]
	}
	withdrawn := func() int64 { return w.sim.Charges(omisesim.Filter{Charge: id})[0].Withdrawn }
	require.Nil(t, stands())
	require.ErrorIs(t, w.sim.Dispute(id, 10001), omisesim.ErrNoDispute, "more than was taken")
	require.ErrorIs(t, w.sim.Dispute("chrg_test_none", 1), omisesim.ErrNoDispute)
	require.ErrorIs(t, w.sim.CloseDispute(id, true), omisesim.ErrNoDispute)
	require.NoError(t, w.sim.Dispute(id, 4000))
	require.Equal(t, "open", stands())
	require.Zero(t, withdrawn())
	require.ErrorIs(t, w.sim.Dispute(id, 1), omisesim.ErrNoDispute, "one at a time")
	require.NoError(t, w.sim.CloseDispute(id, false))
	require.Equal(t, "lost", stands())
	require.EqualValues(t, 4000, withdrawn())
	require.Contains(t, w.kinds(), "dispute.create")
	require.Contains(t, w.kinds(), "dispute.close")

	other, _ := w.charge(t, `"card":"tokn_test_ok__other"`)["id"].(string)
	require.NoError(t, w.sim.Dispute(other, 10000))
	require.NoError(t, w.sim.CloseDispute(other, true))
	require.Zero(t, w.sim.Charges(omisesim.Filter{Charge: other})[0].Withdrawn)
}
