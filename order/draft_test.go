package order

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func goodDraft() Draft {
	return Draft{
		ID: "o-1", Client: "shop", Currency: "JPY", BuyerRef: "buyer-1", ExpiresAt: time.Unix(2_000_000_000, 0),
		Lines: []Line{
			{No: 1, SKU: "ticket", Name: "Ticket", Quantity: 3, UnitAmount: 1000, TaxRate: "10", Action: ActionIssue, Issuer: "tickets"},
			{No: 2, SKU: "mug", Name: "Mug", Quantity: 1, UnitAmount: 500, Action: ActionStock},
			{No: 3, SKU: "gift", Name: "Gift", Quantity: 1, UnitAmount: 0, Action: ActionGrant},
		},
		Adjustments: []Adjustment{{Kind: "discount", Amount: -100}, {Kind: "shipping", Amount: 0}, {Kind: "tax", Amount: 340}},
		Total:       3740,
	}
}

func TestDraftValidate(t *testing.T) {
	t.Parallel()
	line := func(f func(*Line)) func(*Draft) { return func(d *Draft) { f(&d.Lines[0]) } }
	adjust := func(kind string, amount int64) func(*Draft) {
		return func(d *Draft) {
			d.Adjustments = append(d.Adjustments, Adjustment{Kind: kind, Amount: amount})
			d.Total += amount
		}
	}
	many := func(n int, l Line) func(*Draft) {
		return func(d *Draft) {
			d.Lines = make([]Line, n)
			for i := range d.Lines {
				d.Lines[i] = l
			}
			d.Total = d.Sum()
		}
	}
	free := Line{SKU: "x", Quantity: 1, UnitAmount: 1, Action: ActionGrant}
	for name, c := range map[string]struct {
		spoil func(*Draft)
		path  string // "" = the draft is good
	}{
		"AsItIs":                     {func(*Draft) {}, ""},
		"TotalTooLow":                {func(d *Draft) { d.Total-- }, "total"},
		"TotalTooHigh":               {func(d *Draft) { d.Total++ }, "total"},
		"TotalZero":                  {func(d *Draft) { adjust("discount", -d.Total)(d) }, "total"},
		"TotalNegative":              {func(d *Draft) { adjust("discount", -d.Total-1)(d) }, "total"},
		"TotalOfOneMinorUnit":        {func(d *Draft) { adjust("discount", -d.Total+1)(d) }, ""},
		"TotalAtTheLimit":            {func(d *Draft) { adjust("tax", MaxMinor-d.Total)(d) }, ""},
		"TotalAboveTheLimit":         {func(d *Draft) { adjust("tax", MaxMinor-d.Total+1)(d) }, "total"},
		"CurrencyUnknown":            {func(d *Draft) { d.Currency = "XXZ" }, "currency"},
		"CurrencyLowerCase":          {func(d *Draft) { d.Currency = "jpy" }, "currency"},
		"CurrencyMissing":            {func(d *Draft) { d.Currency = "" }, "currency"},
		"NoLines":                    {func(d *Draft) { d.Lines = nil }, "lines"},
		"TenThousandLines":           {many(10_000, free), ""},
		"TenThousandAndOneLines":     {many(10_001, free), "lines"},
		"TenThousandUnits":           {many(5_000, Line{SKU: "x", Quantity: 2, UnitAmount: 1, Action: ActionGrant}), ""},
		"MoreUnitsThanAllowed":       {many(5_001, Line{SKU: "x", Quantity: 2, UnitAmount: 1, Action: ActionGrant}), "lines"},
		"AHundredAndOneAdjustments":  {func(d *Draft) { d.Adjustments = make([]Adjustment, 101) }, "adjustments"},
		"SkuMissing":                 {line(func(l *Line) { l.SKU = "" }), "lines[0].sku"},
		"QuantityZero":               {line(func(l *Line) { l.Quantity = 0 }), "lines[0].quantity"},
		"QuantityNegative":           {line(func(l *Line) { l.Quantity = -1 }), "lines[0].quantity"},
		"QuantityOverflows":          {line(func(l *Line) { l.Quantity = math.MaxInt }), "lines[0].quantity"},
		"AmountNegative":             {line(func(l *Line) { l.UnitAmount = -1 }), "lines[0].unit_amount"},
		"AmountOverflows":            {line(func(l *Line) { l.UnitAmount = math.MaxInt64 }), "lines[0].unit_amount"},
		"TaxRateWithSign":            {line(func(l *Line) { l.TaxRate = "-10" }), "lines[0].tax_rate"},
		"TaxRateWithPercent":         {line(func(l *Line) { l.TaxRate = "10%" }), "lines[0].tax_rate"},
		"TaxRateWithExponent":        {line(func(l *Line) { l.TaxRate = "1e1" }), "lines[0].tax_rate"},
		"TaxRateWithLineBreak":       {line(func(l *Line) { l.TaxRate = "10\n" }), "lines[0].tax_rate"},
		"TaxRateInOtherDigits":       {line(func(l *Line) { l.TaxRate = "１０" }), "lines[0].tax_rate"},
		"TaxRateWithFraction":        {line(func(l *Line) { l.TaxRate = "7.25" }), ""},
		"TaxRateTooFine":             {line(func(l *Line) { l.TaxRate = "7.12345" }), "lines[0].tax_rate"},
		"ActionUnknown":              {line(func(l *Line) { l.Action = "teleport" }), "lines[0].action"},
		"ActionMissing":              {line(func(l *Line) { l.Action, l.Issuer = "", "" }), "lines[0].action"},
		"IssuerMissing":              {line(func(l *Line) { l.Issuer = "" }), "lines[0].issuer"},
		"IssuerOfStock":              {line(func(l *Line) { l.Action = ActionStock }), "lines[0].issuer"},
		"DiscountPositive":           {adjust("discount", 1), "adjustments[3].amount"},
		"DiscountZero":               {adjust("discount", 0), "adjustments[3].amount"},
		"ShippingNegative":           {adjust("shipping", -1), "adjustments[3].amount"},
		"TaxNegative":                {adjust("tax", -1), "adjustments[3].amount"},
		"AdjustmentUnknown":          {adjust("tip", 1), "adjustments[3].kind"},
		"AdjustmentBeyondBounds":     {adjust("tax", MaxMinor+1), "adjustments[3].amount"},
		"AdjustmentSmallestPossible": {adjust("discount", math.MinInt64), "adjustments[3].amount"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := goodDraft()
			c.spoil(&d)
			ps := d.Validate()
			if c.path == "" {
				require.Empty(t, ps)
				return
			}
			require.NotEmpty(t, ps)
			require.Equal(t, c.path, ps[0].Path)
		})
	}
}

func TestDraftProblemsAreBoundedAndCarryNoInput(t *testing.T) {
	t.Parallel()
	d := goodDraft()
	d.Lines = make([]Line, 5000)
	for i := range d.Lines {
		d.Lines[i] = Line{SKU: "4242424242424242", TaxRate: "<script>", Quantity: 1, Action: "secret"}
	}
	ps := d.Validate()
	require.Len(t, ps, 20)
	for _, p := range ps {
		require.NotContains(t, p.Message+p.Path, "4242")
		require.NotContains(t, p.Message+p.Path, "script")
	}
}

// The bounds of the parts must keep the sum within int64 even where every part is at its limit.
func TestLargestSumDoesNotOverflow(t *testing.T) {
	t.Parallel()
	largest := int64(MaxLines)*int64(MaxUnits)*(MaxMinor/int64(MaxUnits)) + MaxAdjustments*int64(MaxMinor)
	require.Positive(t, largest)
	require.Less(t, largest, int64(math.MaxInt64)/100)
}

func TestIDsAreUniqueAndPlain(t *testing.T) {
	t.Parallel()
	makers := map[string]func() string{
		"att_": func() string { return string(NewAttemptID()) }, "pay_": func() string { return string(NewPaymentID()) },
		"op_": func() string { return string(NewOperationID()) }, "rev_": func() string { return string(NewReviewID()) },
		"evt_": func() string { return string(NewEventID()) }, "OF": NewMerchantReference,
	}
	for prefix, fresh := range makers {
		seen := map[string]bool{}
		for range 20_000 {
			id := fresh()
			require.False(t, seen[id], "%s twice", prefix)
			seen[id] = true
			body, ok := strings.CutPrefix(id, prefix)
			require.True(t, ok)
			require.Empty(t, strings.Trim(body, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), "letters people confuse, or a character some provider refuses")
			require.GreaterOrEqual(t, len(body)*5, 80, "random bits")
		}
	}
	require.Len(t, NewMerchantReference(), 18, "the tightest provider takes 20")
}

func TestUnitIDsAreStableAndTellNothing(t *testing.T) {
	t.Parallel()
	k := UnitKey{Order: "SHOP-ORDER-0042", Line: 1, Ordinal: 1, Action: ActionIssue, Revision: 1}
	require.Equal(t, UnitID("unit_8TGZE16HYTGGQHJB9F0RYBFK7V"), k.ID(), "a changed derivation would plan the units of live orders twice")
	seen := map[UnitID]UnitKey{k.ID(): k}
	for _, x := range []UnitKey{
		{"SHOP-ORDER-0043", 1, 1, ActionIssue, 1},
		{"SHOP-ORDER-0042", 2, 1, ActionIssue, 1},
		{"SHOP-ORDER-0042", 1, 2, ActionIssue, 1},
		{"SHOP-ORDER-0042", 1, 1, ActionGrant, 1},
		{"SHOP-ORDER-0042", 1, 1, ActionIssue, 2},
		{`a"/1`, 1, 1, ActionIssue, 1},
		{`a`, 11, 1, ActionIssue, 1},
		{"a", 1, 11, ActionIssue, 1},
		{"a/1", 1, 1, ActionIssue, 1},
		{"a", 1, 1, ActionIssue, 1},
	} {
		id := x.ID()
		require.NotContains(t, seen, id, "%+v and %+v share an id", x, seen[id])
		seen[id] = x
		require.Len(t, id, len("unit_")+26)
	}
	for n := 4; n <= len(k.Order); n++ {
		for i := 0; i+n <= len(k.Order); i++ {
			require.NotContains(t, string(k.ID()), string(k.Order[i:i+n]), "a part of the order id goes to an issuer")
		}
	}
}

func TestIssueOperationsDifferByUnitAndGeneration(t *testing.T) {
	t.Parallel()
	a, b := UnitKey{Order: "a", Line: 1, Ordinal: 1, Action: ActionIssue, Revision: 1}.ID(), UnitKey{Order: "b", Line: 1, Ordinal: 1, Action: ActionIssue, Revision: 1}.ID()
	seen := map[OperationID]bool{}
	for _, u := range []UnitID{a, b} {
		for g := 1; g <= 12; g++ {
			op := IssueOperation(u, g)
			require.False(t, seen[op])
			seen[op] = true
			require.Equal(t, op, IssueOperation(u, g), "every try sends the same key")
			require.True(t, u.owns(op))
			require.False(t, (UnitID("unit_X") + u).owns(op))
		}
	}
	require.False(t, a.owns(IssueOperation(b, 1)))
	require.False(t, a.owns(""))
}
