package omise

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	omisego "github.com/omise/omise-go"
	"github.com/stretchr/testify/require"

	"orderflow/gateways"
)

// Goal: an outside judge of our decoder. Method: the answers that omise-go's authors recorded from Omise, read from the
// module itself, each charge compared with what omise-go's own types read. Not covered: what Omise says today.

// fixtures are omise-go's recorded answers by their path in the module.
func fixtures(t *testing.T) map[string][]byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/omise/omise-go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(t, err)
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	require.Equal(t, "v1.7.2", version)
	root := filepath.Join(dir, "testdata")
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		body, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+string(filepath.Separator))] = body
		return err
	}))
	require.Greater(t, len(files), 50)
	return files
}

// objects collects every object of a kind, however deep.
func objects(t *testing.T, body []byte, kind string) []json.RawMessage {
	t.Helper()
	var found []json.RawMessage
	var walk func(raw json.RawMessage)
	walk = func(raw json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for _, inner := range list {
				walk(inner)
			}
			return
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return
		}
		if text(fields["object"]) == kind {
			found = append(found, raw)
		}
		for _, inner := range fields {
			walk(inner)
		}
	}
	walk(body)
	return found
}

func TestOurDecoderReadsEveryRecordedCharge(t *testing.T) {
	t.Parallel()
	g, read := open(t, ""), 0
	for path, body := range fixtures(t) {
		for _, raw := range objects(t, body, "charge") {
			if !bytes.Contains(raw, []byte(`"amount"`)) {
				continue // a deleted one, or a reference
			}
			read++
			c, ok := readCharge(raw)
			require.True(t, ok, "%s: %s", path, raw)
			theirs := omisego.Charge{}
			require.NoError(t, json.Unmarshal(raw, &theirs))
			o, err := g.observe(gateways.Confirm, c, answer{})
			require.NoError(t, err)
			require.Equal(t, theirs.ID, o.ProviderPaymentID)
			require.Equal(t, theirs.Amount, o.AmountMinor)
			require.Equal(t, strings.ToUpper(theirs.Currency), string(o.Currency))
			require.Equal(t, gateways.Test, o.Account.Environment)
			require.Equal(t, theirs.Status == "", o.Outcome == gateways.Unknown, "an old rendering without a status decides nothing")
			if theirs.RefundedAmount > 0 {
				require.Equal(t, theirs.RefundedAmount, o.RefundedMinor)
			}
		}
	}
	require.GreaterOrEqual(t, read, 7, "the fixtures hold charges")
}

func TestTheRecordedChargesMeanWhatTheyAre(t *testing.T) {
	t.Parallel()
	files := fixtures(t)
	for id, want := range map[string]gateways.Observation{
		"chrg_test_5kdpo8ie121323la8ew": { // a bill to pay at a counter
			Outcome: gateways.Pending, Status: "pending", Currency: "THB", AmountMinor: 400000,
			NextAction: &gateways.NextAction{
				Type: "voucher", Code: "758182940893199850", Due: "2020-07-01T03:53:01Z",
				URL: "https://api.omise.co/charges/chrg_test_5kdpo8ie121323la8ew/documents/docu_test_5kdpo8jcq8jn1zke3i1/downloads/FABFCC17CBD02176",
			},
		},
		"chrg_test_5nvdpnapyle90ejudk8": { // a QR code
			Outcome: gateways.Pending, Status: "pending", Currency: "SGD", AmountMinor: 400000,
			NextAction: &gateways.NextAction{
				Type: "qr", Due: "2021-05-24T10:53:59Z",
				QR: "https://api.omise.co/charges/chrg_test_5nvdpnapyle90ejudk8/documents/docu_test_5nvdpnc12jbp0hwy031/downloads/542F307C03299822",
			},
		},
		"chrg_test_5x1753iuub61dfe41q4": { // authorized, then captured in part
			Outcome: gateways.Succeeded, Status: "successful", Currency: "THB", AmountMinor: 10000, CapturedMinor: 5000, Dispute: gateways.DisputeNone,
		},
		"chrg_test_4yq7duw15p9hdrjp8oq": { // of a version without a status
			Outcome: gateways.Unknown, Currency: "THB", AmountMinor: 100000, CapturedMinor: 100000, RefundedMinor: 10000,
		},
	} {
		body := files[filepath.Join("fixtures", "api.omise.co", "charges", id+"-get.json")]
		require.NotEmpty(t, body, id)
		base, _ := scripted(t, 200, string(body))
		g := open(t, base)
		o, err := g.Lookup(t.Context(), gateways.Query{ProviderPaymentID: id})
		require.NoError(t, err)
		want.Account, want.ProviderPaymentID, want.ProviderTime = g.Account(), id, o.ProviderTime
		require.Equal(t, want, o)
		require.NotZero(t, o.ProviderTime)
	}
}

func TestOurReaderReadsEveryRecordedEvent(t *testing.T) {
	t.Parallel()
	g, read := open(t, ""), 0
	for path, body := range fixtures(t) {
		for _, raw := range objects(t, body, "event") {
			read++
			n, err := g.ReadNotice(gateways.Incoming{Body: raw, At: arrival})
			require.NoError(t, err, path)
			theirs := omisego.Event{}
			require.NoError(t, json.Unmarshal(raw, &theirs))
			require.Equal(t, theirs.ID, n.EventID)
			require.Equal(t, theirs.Key, n.EventType)
			require.True(t, theirs.CreatedAt.Equal(n.ProviderTime))
			require.Equal(t, gateways.Test, n.Environment)
			if c, ok := theirs.Data.(*omisego.Charge); ok {
				require.Equal(t, c.ID, n.ProviderPaymentID)
			} else {
				require.Empty(t, n.Says)
			}
		}
	}
	require.GreaterOrEqual(t, read, 10, "the fixtures hold events")
	require.Panics(t, func() { _ = json.Unmarshal(event("charge.complete", "null"), &omisego.Event{}) }, "why omise-go's decoder is not used")
}

// A recorded error of Omise is one to us; a recorded list of charges, even an old one, is a list.
func TestOurDecoderReadsRecordedErrorsAndLists(t *testing.T) {
	t.Parallel()
	files, errors := fixtures(t), 0
	for path, body := range files {
		if strings.Contains(path, "404-get") && len(objects(t, body, "error")) > 0 {
			errors++
			e := readError(answer{status: 404, body: body})
			require.Equal(t, apiError{Object: "error", Code: "not_found", status: 404}, e, path)
		}
	}
	require.GreaterOrEqual(t, errors, 2)
	// The recording says that there are two and holds one, so a lookup must not take it for the whole truth.
	base, _ := scripted(t, 200, string(files[filepath.Join("fixtures", "api.omise.co", "charges-get.json")]))
	page, _, err := open(t, base).listPage(t.Context(), listOf(0))
	require.NoError(t, err)
	require.Equal(t, 2, page.Total)
	require.Len(t, page.Data, 1)
	require.Equal(t, "chrg_test_4yq7duw15p9hdrjp8oq", page.Data[0].ID)
}
