package omisesim

import (
	"maps"
	"strings"
	"time"
)

// stamp is a time as Omise writes it: whole seconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func optionalTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// view is the charge in version 2019-05-29.
func (c *charge) view(live bool) map[string]any {
	const carried = 20 // a charge carries the first page of its refunds
	refunds := []any{}
	for _, f := range c.refunds[:min(carried, len(c.refunds))] {
		refunds = append(refunds, f.view(live))
	}
	held := int64(0)
	if c.authorized {
		held = c.amount
	}
	v := map[string]any{
		"object": "charge", "id": c.id, "livemode": live, "location": "/charges/" + c.id, "status": c.status,
		"amount": c.amount, "currency": c.currency, "authorization_type": nil, "authorized_amount": held,
		"captured_amount": c.captured, "refunded_amount": c.refunded, "net": c.captured, "fee": 0,
		"capture": c.capture, "authorized": c.authorized, "paid": c.captured > 0,
		"capturable": c.status == pending && c.authorized, "reversible": c.status == pending && c.authorized,
		"reversed": c.status == reversed, "expired": c.status == expired, "voided": c.voided(),
		"refundable": c.captured > c.refunded, "disputable": c.captured > 0,
		"failure_code": optional(c.failure), "failure_message": nil,
		"authorize_uri": optional(c.authorize), "return_uri": optional(c.returnURI), "expires_at": optionalTime(c.expires),
		"created_at": stamp(c.created), "paid_at": optionalTime(c.paidAt), "transaction": nil,
		"card": nil, "customer": optional(c.customer), "source": nil, "description": optional(c.description),
		"metadata": maps.Clone(c.metadata), "ip": nil, "dispute": nil, "link": nil, "schedule": nil,
		"refunds": map[string]any{
			"object": "list", "data": refunds, "limit": carried, "offset": 0, "total": len(c.refunds),
			"location": "/charges/" + c.id + "/refunds", "order": "chronological",
		},
	}
	if c.dispute != nil {
		v["dispute"] = c.dispute.view(live)
	}
	if c.failure != "" {
		v["failure_message"] = "The sandbox made this charge fail."
	}
	if c.captured > 0 {
		v["transaction"] = strings.Replace(c.id, "chrg_", "trxn_", 1)
	}
	if c.behavior.kind != "" {
		v["source"] = c.sourceView(live)
	} else {
		v["card"] = c.behavior.cardView(live)
	}
	return v
}

func (c *charge) voided() bool {
	return len(c.refunds) > 0 && c.refunds[len(c.refunds)-1].voided
}

func (c *charge) sourceView(live bool) map[string]any {
	v := map[string]any{
		"object": "source", "id": c.method, "livemode": live, "location": "/sources/" + c.method, "type": c.behavior.kind,
		"flow": flowOf(c.behavior.kind), "amount": c.amount, "currency": c.currency, "scannable_code": nil, "references": nil,
		"charge_status": c.status,
	}
	number := strings.TrimLeft(strings.Map(digitsOnly, c.id), "0") + "000000000000"
	switch c.behavior.kind {
	case "promptpay":
		v["scannable_code"] = map[string]any{
			"object": "barcode", "type": "qr",
			"image": map[string]any{
				"object": "document", "livemode": live, "deleted": false, "filename": "qrcode.svg",
				"download_uri": c.authorize + "/qr.svg",
			},
		}
	case "econtext":
		v["references"] = map[string]any{"payment_code": number[:11], "expires_at": optionalTime(c.expires)}
	case "bill_payment_tesco_lotus":
		v["references"] = map[string]any{
			"reference_number_1": number[:11], "barcode": c.authorize + "/qr.svg", "expires_at": optionalTime(c.expires),
		}
	}
	return v
}

func digitsOnly(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// older renders an object as version 2017-11-02 does: other names for the same facts.
func older(v map[string]any) map[string]any {
	out := maps.Clone(v)
	rename := func(from, to string) {
		if value, ok := out[from]; ok {
			delete(out, from)
			out[to] = value
		}
	}
	rename("created_at", "created")
	if out["object"] == "charge" {
		rename("refunded_amount", "refunded")
		rename("paid", "captured")
		for _, later := range []string{"authorized_amount", "captured_amount", "capturable", "authorization_type", "paid_at"} {
			delete(out, later)
		}
		out["currency"] = strings.ToLower(out["currency"].(string))
	}
	return out
}
