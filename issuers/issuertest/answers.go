package issuertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
	"orderflow/issuers"
)

// mark in a body becomes the operation id that is asked about.
const mark = "{{operation_id}}"

// rubbish are answers that say nothing usable, whatever their status. Each comes after the issuance was made, which is what
// makes a guess dangerous.
var rubbish = map[string]Trouble{
	"HTMLFromAProxy":      {Status: 200, Body: "<html><body>Welcome"},
	"EmptyBody":           {Status: 201},
	"NoContent":           {Status: 204},
	"CutJSON":             {Status: 201, Body: `{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"iss`},
	"Null":                {Status: 200, Body: `null`},
	"List":                {Status: 200, Body: `[{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"issued","reference":"V"}]`},
	"TwoValues":           {Status: 200, Body: issuedBody + issuedBody},
	"DoubledName":         {Status: 200, Body: `{"issuance_id":"iss_1","issuance_id":"iss_2","operation_id":"` + mark + `","status":"issued","reference":"V"}`},
	"NameInOtherCase":     {Status: 200, Body: `{"Issuance_ID":"iss_1","operation_id":"` + mark + `","status":"issued","reference":"V"}`},
	"NumberForText":       {Status: 200, Body: `{"issuance_id":7,"operation_id":"` + mark + `","status":"issued","reference":"V"}`},
	"NumberForOperation":  {Status: 200, Body: `{"issuance_id":"iss_1","operation_id":7,"status":"issued","reference":"V"}`},
	"NoOperation":         {Status: 200, Body: `{"issuance_id":"iss_1","status":"issued","reference":"V"}`},
	"NoIssuance":          {Status: 200, Body: `{"operation_id":"` + mark + `","status":"issued","reference":"V"}`},
	"EmptyIssuance":       {Status: 200, Body: `{"issuance_id":"","operation_id":"` + mark + `","status":"issued","reference":"V"}`},
	"NoReference":         {Status: 200, Body: `{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"issued"}`},
	"NoStatus":            {Status: 200, Body: `{"issuance_id":"iss_1","operation_id":"` + mark + `","reference":"V"}`},
	"UnknownStatus":       {Status: 200, Body: `{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"maybe","reference":"V"}`},
	"NULInReference":      {Status: 200, Body: `{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"issued","reference":"V\u0000"}`},
	"Redirect":            {Status: 302, Header: map[string]string{"Location": "/elsewhere"}},
	"RedirectSameMethod":  {Status: 307, Header: map[string]string{"Location": "/v1/issuances"}},
	"BadRequest":          {Status: 400, Body: `{"code":"bad_request"}`},
	"ServerError":         {Status: 500, Body: `{"code":"oops"}`},
	"BadGateway":          {Status: 502, Body: "<html>"},
	"Unavailable":         {Status: 503, Header: map[string]string{"Retry-After": "3"}, Body: "{}"},
	"GatewayTimeout":      {Status: 504, Body: "{}"},
	"PaymentRequired":     {Status: 402, Body: `{"code":"x"}`},
	"UnprocessableNoCode": {Status: 422, Body: `{"message":"no"}`},
	"UnprocessableHTML":   {Status: 422, Body: `<html>`},
	"UnprocessableNumber": {Status: 422, Body: `{"code":7}`},
	"UnprocessableSpaces": {Status: 422, Body: `{"code":"two words"}`},
}

const issuedBody = `{"issuance_id":"iss_1","operation_id":"` + mark + `","status":"issued","reference":"V"}`

// onIssueOnly mean something else, or nothing wrong, to a read.
var onIssueOnly = map[string]Trouble{
	"NotFound":              {Status: 404, Body: `{"code":"not_found"}`},
	"AcceptedButIssued":     {Status: 202, Body: issuedBody},
	"AcceptedWithoutStatus": {Status: 202, Body: `{}`},
	"CreatedButProcessing":  {Status: 201, Body: `{"operation_id":"` + mark + `","status":"processing"}`},
}

// onLookupOnly have a meaning for a write.
var onLookupOnly = map[string]Trouble{
	"Unauthorized":       {Status: 401, Body: `{}`},
	"Forbidden":          {Status: 403, Body: `{}`},
	"Conflict":           {Status: 409, Body: `{}`},
	"RateLimited":        {Status: 429, Body: `{}`},
	"Accepted":           {Status: 202, Body: `{"status":"processing"}`},
	"RefusedWithoutCode": {Status: 200, Body: `{"operation_id":"` + mark + `","status":"refused"}`},
}

func garbage(b *bench) {
	for _, set := range []map[string]Trouble{rubbish, onIssueOnly} {
		for name, trouble := range set {
			b.t.Run(name, func(t *testing.T) {
				b := &bench{Side: b.Side, t: t, caps: b.caps}
				r := request(1)
				r.OperationID = "op_" + name
				trouble.Effect = true
				b.arm(OnIssue, r.OperationID, trouble)
				_, err := b.issue(r)
				f := b.faultIs(err, fault.IssuanceUnknown)
				require.Equal(t, trouble.Status, f.Provider.HTTPStatus)
				require.Equal(t, 1, b.Sent(r.OperationID), "sent again")
				require.Equal(t, 1, b.Issued(r.OperationID))
			})
		}
	}
}

func lookupFails(b *bench) {
	if !b.caps.Lookup {
		b.t.Skip("no lookup")
	}
	r := request(1)
	o, err := b.issue(r)
	b.issued(o, err, r)
	for _, set := range []map[string]Trouble{rubbish, onLookupOnly} {
		for name, trouble := range set {
			b.t.Run(name, func(t *testing.T) {
				b := &bench{Side: b.Side, t: t, caps: b.caps}
				b.arm(OnLookup, r.OperationID, trouble)
				_, err := b.Issuer.Lookup(b.ctx(), r.OperationID)
				f := b.faultIs(err, fault.IssuerReadFailed)
				if trouble.Header["Retry-After"] != "" {
					require.Equal(t, 3*time.Second, f.RetryAfter)
				}
			})
		}
	}
	require.Equal(b.t, 1, b.Sent(r.OperationID), "a lookup issues nothing")
}

// lookupCut uses a far side that saw nothing before: net/http repeats a read whose resting connection was closed, which is
// harmless and no retry of the issuer's own.
func lookupCut(b *bench) {
	if !b.caps.Lookup {
		b.t.Skip("no lookup")
	}
	r := request(1)
	b.arm(OnLookup, r.OperationID, Trouble{Cut: true})
	_, err := b.Issuer.Lookup(b.ctx(), r.OperationID)
	b.faultIs(err, fault.IssuerReadFailed)
}

func notFound(b *bench) {
	if !b.caps.Lookup {
		b.t.Skip("no lookup")
	}
	o, err := b.Issuer.Lookup(b.ctx(), "op_never_sent")
	require.NoError(b.t, err, "not found is an observation: maybe only not yet")
	require.Equal(b.t, issuers.Observation{OperationID: "op_never_sent", Outcome: issuers.NotFound}, o)
	for _, id := range []string{"", "..", "a/b", "a b", "a\nb"} {
		_, err := b.Issuer.Lookup(b.ctx(), id)
		b.faultIs(err, fault.InternalError)
	}
}

func noLookup(b *bench) {
	if b.caps.Lookup {
		b.t.Skip("this issuer has a lookup")
	}
	_, err := b.Issuer.Lookup(b.ctx(), request(1).OperationID)
	b.faultIs(err, fault.InternalError)
}

func revoke(b *bench) {
	r := request(1)
	if !b.caps.Revoke {
		_, err := b.Issuer.Revoke(b.ctx(), r.OperationID)
		b.faultIs(err, fault.InternalError)
		return
	}
	o, err := b.Issuer.Revoke(b.ctx(), "op_never_sent")
	require.NoError(b.t, err)
	require.Equal(b.t, issuers.NotFound, o.Outcome)

	o, err = b.issue(r)
	b.issued(o, err, r)
	o, err = b.Issuer.Revoke(b.ctx(), r.OperationID)
	require.NoError(b.t, err)
	require.Equal(b.t, issuers.Revoked, o.Outcome)
	require.Equal(b.t, r.OperationID, o.OperationID)
	if b.caps.Lookup {
		o, err = b.Issuer.Lookup(b.ctx(), r.OperationID)
		require.NoError(b.t, err)
		require.Contains(b.t, []issuers.Outcome{issuers.Revoked, issuers.NotFound}, o.Outcome, "what was taken back must not look held")
	}
}

func revokeFails(b *bench) {
	if !b.caps.Revoke {
		b.t.Skip("this issuer cannot revoke")
	}
	r := request(1)
	o, err := b.issue(r)
	b.issued(o, err, r)
	for name, tc := range map[string]struct {
		trouble Trouble
		code    fault.Code
	}{
		"Cut":              {Trouble{Cut: true}, fault.IssuanceUnknown},
		"HTML":             {Trouble{Status: 200, Body: "<html>"}, fault.IssuanceUnknown},
		"StillIssued":      {Trouble{Status: 200, Body: issuedBody}, fault.IssuanceUnknown},
		"ServerError":      {Trouble{Status: 500, Body: "{}"}, fault.IssuanceUnknown},
		"Unprocessable":    {Trouble{Status: 422, Body: `{"code":"used"}`}, fault.IssuanceUnknown},
		"Conflict":         {Trouble{Status: 409, Body: `{"code":"used"}`}, fault.IssuanceInProgress},
		"Unauthorized":     {Trouble{Status: 401, Body: "{}"}, fault.IssuerMisconfigured},
		"RateLimited":      {Trouble{Status: 429, Body: "{}"}, fault.IssuerRateLimited},
		"AnotherOperation": {Trouble{Status: 200, Body: `{"operation_id":"op_other","status":"revoked"}`}, fault.IssuanceMismatch},
	} {
		b.t.Run(name, func(t *testing.T) {
			b := &bench{Side: b.Side, t: t, caps: b.caps}
			b.arm(OnRevoke, r.OperationID, tc.trouble)
			_, err := b.Issuer.Revoke(b.ctx(), r.OperationID)
			b.faultIs(err, tc.code)
		})
	}
}
