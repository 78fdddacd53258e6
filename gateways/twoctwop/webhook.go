package twoctwop

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
)

// ReadNotice reads a backend notification: JSON with a token signed by our secret. The form field that the buyer's browser
// brings back (paymentResponse) is unsigned and not read at all: a return is a reason to look, whatever it says.
//
// A notice has no id and no trustworthy time, so a copy of an old one verifies for ever; the id made here is the same for
// every copy, and the caller looks the payment up. Its size and encoding are the caller's to judge.
func (g *Gateway) ReadNotice(in gateways.Incoming) (gateways.Notice, error) {
	const op = name + " notice"
	outer, err := object(in.Body)
	if err != nil {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, op, err)
	}
	token := outer.text("payload")
	if token == "" {
		return gateways.Notice{}, fault.Wrap(fault.WebhookUnproven, op, errUnsigned)
	}
	claims, err := unseal(g.secret, token)
	if errors.Is(err, shared.ErrNoAnswer) {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, op, err)
	}
	if err != nil {
		return gateways.Notice{}, fault.Wrap(fault.WebhookUnproven, op, err)
	}
	if claims.text("merchantID") != g.merchant {
		return gateways.Notice{}, fault.Wrap(fault.WebhookUnproven, op, errMerchant)
	}
	invoice, code := claims.text("invoiceNo"), word(claims.text("respCode"))
	if !invoiceShape.MatchString(invoice) || code == "" {
		return gateways.Notice{}, fault.Wrap(fault.WebhookMalformed, op, shared.ErrNoAnswer)
	}
	return gateways.Notice{
		EventID: eventID(invoice, claims.text("tranRef"), code), EventType: "payment." + code,
		ProviderPaymentID: invoice, MerchantReference: invoice, Proof: gateways.ProofSigned,
		ProviderTime: providerTime(claims.text("transactionDateTime")), Says: claimed(resultOf(code)),
	}, nil
}

// eventID names one fact: this payment, this transaction of it, this result.
func eventID(invoice, transaction, code string) string {
	if len(transaction) > 64 || !printable(transaction) {
		sum := sha256.Sum256([]byte(transaction))
		transaction = hex.EncodeToString(sum[:16])
	}
	return invoice + "|" + transaction + "|" + code
}

func claimed(r says) gateways.Outcome {
	switch r {
	case saysPaid:
		return gateways.Succeeded
	case saysPending:
		return gateways.Pending
	case saysDeclined, saysEnded:
		return gateways.Declined
	}
	return gateways.Unknown
}
