package view

import (
	"time"

	"orderflow/order"
)

// Point is one thing known, or not known, about an order: a stable word and what belongs into its sentence. Who shows it has the
// sentences, in its reader's language.
type Point struct {
	Word string
	Args []any // texts, numbers and times
}

// The words of points. PointWords lists them all.
const (
	PointNothingTried     = "nothing_tried"
	PointCaptured         = "captured"
	PointRefunded         = "refunded"
	PointMismatched       = "mismatched"
	PointAttemptClosed    = "attempt_closed"
	PointAttemptDeclined  = "attempt_declined"
	PointAttemptPending   = "attempt_pending"
	PointAttemptHeld      = "attempt_held"
	PointAttemptCapturing = "attempt_capturing"
	PointProvided         = "provided"
	PointPlanned          = "planned"
	PointUnitRefused      = "unit_refused"
	PointRefundSucceeded  = "refund_succeeded"
	PointRefundPending    = "refund_pending"
	PointRefundFailed     = "refund_failed"
	PointAttemptUnknown   = "attempt_unknown"
	PointAttemptReflected = "attempt_unreflected"
	PointUnitUnknown      = "unit_unknown"
	PointUnitIssuing      = "unit_issuing"
	PointRefundUnknown    = "refund_unknown"
	PointMoreUnits        = "more_units"
)

// PointWords lists every word, for a test that each has its sentence.
var PointWords = []string{
	PointNothingTried, PointCaptured, PointRefunded, PointMismatched, PointAttemptClosed, PointAttemptDeclined, PointAttemptPending, PointAttemptHeld, PointAttemptCapturing, PointProvided,
	PointPlanned, PointUnitRefused, PointRefundSucceeded, PointRefundPending, PointRefundFailed, PointAttemptUnknown, PointAttemptReflected,
	PointUnitUnknown, PointUnitIssuing, PointRefundUnknown, PointMoreUnits,
}

// maxPoints bounds the units that are named one by one.
const maxPoints = 10

// Knowledge is what is known and what is not: the question a person has to answer is in the second list.
type Knowledge struct {
	Known, Unknown []Point
}

func (k *Knowledge) know(word string, args ...any)  { k.Known = append(k.Known, Point{word, args}) }
func (k *Knowledge) doubt(word string, args ...any) { k.Unknown = append(k.Unknown, Point{word, args}) }

// KnownOf sorts an order's facts into what is known and what is not. Nothing is guessed: what has no answer is not known.
func KnownOf(o Order) Knowledge {
	k := &Knowledge{}
	k.money(o)
	k.units(o)
	k.refunds(o)
	return *k
}

func (k *Knowledge) money(o Order) {
	if len(o.Attempts) == 0 {
		k.know(PointNothingTried)
	}
	for _, p := range o.Payments {
		word := PointCaptured
		if !p.Matched {
			word = PointMismatched
		}
		k.know(word, p.Gateway, amount(p.Captured, p.Currency), p.ProviderPaymentID)
		if p.Refunded > 0 {
			k.know(PointRefunded, amount(p.Refunded, p.Currency), p.ProviderPaymentID)
		}
	}
	for _, a := range o.Attempts {
		switch {
		case a.Unreflected:
			k.doubt(PointAttemptReflected, string(a.ID))
		case a.Status == order.AttemptClosed:
			k.know(PointAttemptClosed, string(a.ID), string(a.CloseReason))
		case a.Status == order.AttemptDeclined:
			k.know(PointAttemptDeclined, string(a.ID), a.Code)
		case a.Status == order.AttemptPending && a.Held > 0 && a.Capture > 0:
			k.doubt(PointAttemptCapturing, a.Gateway, amount(a.Capture, a.Currency), string(a.ID))
		case a.Status == order.AttemptPending && a.Held > 0:
			k.know(PointAttemptHeld, amount(a.Held, a.Currency), string(a.ID), a.Gateway)
		case a.Status == order.AttemptPending:
			k.know(PointAttemptPending, string(a.ID), a.Gateway)
		case a.Status == order.AttemptCreated, a.Status == order.AttemptSent, a.Status == order.AttemptUnknown:
			said, at := lastSaid(o, "attempt", string(a.ID), a.CreatedAt)
			k.doubt(PointAttemptUnknown, a.Gateway, amount(a.Amount, a.Currency), string(a.ID), said, at)
		}
	}
}

// lastSaid is the last answer about a subject, and when it came.
func lastSaid(o Order, subject, id string, since time.Time) (string, time.Time) {
	said, at := "nothing", since
	for _, e := range o.History {
		if e.Kind == "observation" && e.Subject == subject && e.SubjectID == id {
			said, at = e.Outcome, e.At
		}
	}
	return said, at
}

func (k *Knowledge) units(o Order) {
	var provided, planned, named int
	for _, u := range o.Units {
		switch u.Status {
		case order.UnitIssued:
			provided++
		case order.UnitPlanned:
			planned++
		case order.UnitUnknown, order.UnitIssuing, order.UnitRefused:
			if named++; named <= maxPoints {
				k.unit(o, u)
			}
		}
	}
	if provided > 0 {
		k.know(PointProvided, provided, len(o.Units))
	}
	if planned > 0 {
		k.know(PointPlanned, planned)
	}
	if named > maxPoints {
		k.doubt(PointMoreUnits, named-maxPoints)
	}
}

func (k *Knowledge) unit(o Order, u Unit) {
	switch u.Status {
	case order.UnitRefused:
		k.know(PointUnitRefused, u.Issuer, u.SKU, u.Code)
	case order.UnitIssuing:
		k.doubt(PointUnitIssuing, u.Issuer, u.SKU, string(u.OperationID))
	default:
		said, at := lastSaid(o, "unit", string(u.ID), o.CreatedAt)
		k.doubt(PointUnitUnknown, u.Issuer, u.SKU, string(u.OperationID), said, at)
	}
}

func (k *Knowledge) refunds(o Order) {
	for _, r := range o.Refunds {
		sum := amount(r.Amount, r.Currency)
		switch r.Status {
		case order.RefundSucceeded:
			k.know(PointRefundSucceeded, sum, string(r.ID))
		case order.RefundPending:
			k.know(PointRefundPending, sum, string(r.ID))
		case order.RefundFailed:
			k.know(PointRefundFailed, sum, string(r.ID), r.Code)
		default:
			said, at := lastSaid(o, "refund", string(r.ID), r.CreatedAt)
			k.doubt(PointRefundUnknown, sum, string(r.ID), said, at)
		}
	}
}
