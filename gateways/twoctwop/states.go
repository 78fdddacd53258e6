package twoctwop

import (
	"orderflow/gateways"
	"orderflow/internal/fault"
)

// State is what a status of the maintenance API means to us.
type State string

// The states. Review covers money that arrived against the plan: too late, too little, too much.
const (
	StateApproving     State = "approving"      // not approved yet
	StateAuthorized    State = "authorized"     // approved; voided by itself unless it is settled in about a week
	StateSettling      State = "settling"       // settlement was asked for
	StateSettled       State = "settled"        //
	StateFailed        State = "failed"         // nothing was taken
	StateExpired       State = "expired"        // nothing was taken in time
	StateVoiding       State = "voiding"        //
	StateVoided        State = "voided"         //
	StateRefunding     State = "refunding"      //
	StateRefunded      State = "refunded"       //
	StateRefundFailed  State = "refund_failed"  //
	StateRefundRefused State = "refund_refused" // a person has to look
	StateTokenized     State = "tokenized"      // a card was stored; no money moved
	StateReview        State = "review"         // a person has to look
)

type stateRow struct {
	state State
	final bool
}

// states has a row for every status the documents name. IP is an invalid promotion, not "in progress"; A is approved and
// not settled; RS is "ready for settlement" in one place and "settlement requested" in another, and neither is settled.
var states = map[string]stateRow{
	"AP":  {StateApproving, false},
	"A":   {StateAuthorized, false},
	"RS":  {StateSettling, false},
	"S":   {StateSettled, true},
	"AE":  {StateReview, false},
	"AL":  {StateReview, false},
	"AM":  {StateReview, false},
	"PF":  {StateFailed, true},
	"AR":  {StateFailed, true},
	"FF":  {StateFailed, true},
	"IP":  {StateFailed, true},
	"ROE": {StateFailed, true},
	"EX":  {StateExpired, true},
	"VP":  {StateVoiding, false},
	"V":   {StateVoided, true},
	"RP":  {StateRefunding, false},
	"RF":  {StateRefunded, true},
	"RFF": {StateRefundFailed, true},
	"RR":  {StateRefundRefused, true},
	"RR1": {StateRefundRefused, true},
	"RR2": {StateRefundRefused, true},
	"RR3": {StateRefundRefused, true},
	"CTS": {StateTokenized, true},
	"CTF": {StateTokenized, true},
}

func stateOf(status string) (stateRow, bool) {
	s, ok := states[status]
	return s, ok
}

// maintenanceTable is complete for the codes the documents name. The result column is not used.
var maintenanceTable = []row{
	{codes: "01 02 03 04 05 10 11 13 14 15 17 18", write: fault.PaymentInvalid},
	{codes: "12 16 21 22 25 30 31 32 33 35 40 41 43 44", write: fault.PaymentAlready},
	{codes: "29 34 39 49", write: fault.PaymentAlready}, // done before
	{codes: "42", write: fault.PaymentInProgress},
	{codes: "36 46 54", write: fault.PaymentNeedsReview},
	{codes: "45 95 99", write: fault.PaymentUnknown},
	{codes: "96 97", write: fault.GatewayMisconfigured, bare: fault.GatewayMisconfigured},
}

// maintenanceCode is what a respCode other than "00" means. An unlisted one on a write may hide a refund.
func maintenanceCode(kind gateways.Kind, code string) fault.Code {
	r, ok := find(maintenanceTable, code)
	switch {
	case kind == read && ok && r.bare != "":
		return r.bare
	case kind == read && code == "16":
		return fault.PaymentNotFound
	case kind == read:
		return fault.GatewayReadFailed
	case ok:
		return r.write
	}
	return fault.PaymentUnknown
}
