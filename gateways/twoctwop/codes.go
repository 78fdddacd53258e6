package twoctwop

import (
	"strings"

	"orderflow/internal/fault"
)

// says is what a result code claims about a payment, when a signed inquiry or notice carries it.
type says int

const (
	saysNothing   says = iota // it is about the call, or an unlisted code: the read failed
	saysPaid                  // captured
	saysPending               // the buyer, the bank or 2C2P still has to act
	saysAbsent                // no transaction (yet)
	saysDeclined              // this try captured nothing
	saysEnded                 // it captured nothing, and the transaction itself is over: canceled or expired
	saysUndecided             // 2C2P itself does not know: ask again
	saysReview                // a person has to look
)

// row is one line of the code table. One code means different things to different calls: to a write it says whether the
// write was done, to an inquiry what became of the payment, and bare (unsigned, so about the inquiry call) why nothing can be read.
type row struct {
	codes  string     // separated by spaces
	write  fault.Code // as an answer to paymentToken, payment or cancelTransaction
	bare   fault.Code // as an unsigned answer to paymentInquiry; empty = gateway_read_failed
	result says       // as a signed answer to paymentInquiry, and in a notice
}

// codeTable is complete for the result codes that 2C2P's documents name. What it does not list is unknown on a write.
//
// A decline in the answer to Do Payment is looked up and not believed: that answer is unsigned, and "declined" lets somebody
// charge again. A code that means that our own request was refused by form is believed, since nobody can charge by it.
// The codes of an issuer that is down or too slow decide nothing on an inquiry either: the money may have moved.
var codeTable = []row{
	{codes: "0000", write: fault.PaymentUnknown, result: saysPaid}, // on a write: handled where a success is expected
	{codes: "4110", write: fault.PaymentAlready, result: saysPaid},
	{codes: "0001 2001 4009", write: fault.PaymentInProgress, result: saysPending},
	{codes: "2002", write: fault.PaymentUnknown, result: saysAbsent},
	{codes: "2003", write: fault.PaymentUnknown},

	{codes: "0004 4001 4005 4012 4014 4033 4034 4041 4043 4051 4054 4055 4057 4059 4061 4062 4065 4080 4081 5007 9035", write: fault.PaymentAlready, result: saysDeclined},
	{codes: "0003 5009 9020", write: fault.PaymentAlready, result: saysEnded},

	{codes: "0999 4091 4096 4099 5002", write: fault.PaymentUnknown, result: saysUndecided},
	{codes: "9990 9991 9992 9993 9994 9995 9996 9999", write: fault.PaymentUnknown, result: saysUndecided},
	{codes: "4094 5005", write: fault.PaymentAlready, result: saysUndecided},
	{codes: "4045 4046 4047 4048", write: fault.PaymentAlready, result: saysReview},
	{codes: "4000 4120 4121 4122 4130 4200 4201 4202", write: fault.PaymentNeedsReview, result: saysReview},

	// Used, existing, refused by form: about a write of ours.
	{codes: "9015 9041", write: fault.PaymentAlready},
	{codes: "9038", write: fault.GatewayUnavailable},
	{codes: "9040", write: fault.PaymentInvalid},
	{codes: "4013 5003 5006 5008", write: fault.PaymentInvalid, result: saysReview},
	{codes: "9004 9005 9006 9008 9009 9010 9057 9901 9902 9903 9904 9905 9906 9907 9908", write: fault.PaymentInvalid},
	{codes: "6101 6102 6103 6104 6105 6106 6107 6108 6109 6110 9007 9042 9900", write: fault.GatewayMisconfigured, bare: fault.GatewayMisconfigured},
	{codes: "5004", write: fault.GatewayMisconfigured, bare: fault.GatewayMisconfigured, result: saysReview},
	// "Authentication failed": the buyer's, or that of our credentials. Only a lookup tells, and signed it stays open.
	{codes: "5014", write: fault.PaymentAlready, bare: fault.GatewayMisconfigured, result: saysReview},

	// States of the maintenance API that an inquiry has no documented word for: paid after the end, too little, too much.
	{codes: "AE AL AM", write: fault.PaymentNeedsReview, bare: fault.GatewayReadFailed, result: saysReview},
}

// flowCode is what an answer to Do Payment asks the buyer to do next.
type flowCode struct {
	action string // of NextAction; empty = nothing to do
	qr     bool   // data is what to show rather than where to go
}

// flowTable holds the flow codes after which the payment waits for the buyer. 2000 ("completed, whatever the outcome") is in
// doneFlow: it is a hint to look at once.
var flowTable = map[string]flowCode{
	"1000": {action: "redirect"}, // meant for a frame; the page works full-size too
	"1001": {action: "redirect"},
	"1002": {action: "redirect"},
	"1003": {action: "voucher"},
	"1004": {action: "redirect"}, // an app's own scheme
	"1005": {action: "qr", qr: true},
}

const doneFlow = "2000"

// rowOf finds a code's row.
func rowOf(code string) (row, bool) { return find(codeTable, code) }

func find(table []row, code string) (row, bool) {
	for _, r := range table {
		for c := range strings.FieldsSeq(r.codes) {
			if c == code {
				return r, true
			}
		}
	}
	return row{}, false
}

// writeCode is what a write's answer with a code means for us. What is not listed may hide a payment.
func writeCode(code string) fault.Code {
	if r, ok := rowOf(code); ok {
		return r.write
	}
	return fault.PaymentUnknown
}

// bareCode is what an unsigned error of an inquiry means for us.
func bareCode(code string) fault.Code {
	if r, ok := rowOf(code); ok && r.bare != "" {
		return r.bare
	}
	return fault.GatewayReadFailed
}

// resultOf is what a signed result code claims about its payment.
func resultOf(code string) says {
	r, _ := rowOf(code)
	return r.result
}
