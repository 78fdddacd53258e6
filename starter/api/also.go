package api

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Route is a route of another package on the API's listener. It gets a request id, a log line, a count and a 405 for other methods
// like the API's own routes, and does everything else by itself: nobody checks an API key or reads a body for it.
type Route struct {
	Pattern string // "POST /webhooks/{gateway}/{account}"
	Handler http.Handler
}

// The problems that other packages on the listener answer with.
const (
	ProblemNotFound         = typeNotFound
	ProblemTooLarge         = typeTooLarge
	ProblemTooSlow          = typeTooSlow
	ProblemUnavailable      = typeUnavailable
	ProblemInternal         = typeInternal
	ProblemEncoded          = typeEncoded
	ProblemWebhookUnproven  = typeUnproven
	ProblemWebhookMalformed = typeNotNotice
	ProblemWebhookLimited   = typeHintLimit
)

// WriteProblem answers with a problem of one of the names above. An empty detail is the type's own; after, where not 0, says when to
// come again.
func WriteProblem(w http.ResponseWriter, name, detail string, after time.Duration) {
	p := problem(name, detail)
	if after > 0 {
		p = p.after(after)
	}
	p.write(w)
}

// describeOthers puts the routes that are not for checkout backends into the specification.
func describeOthers(spec *huma.OpenAPI, problems *huma.Response) {
	text := func(name, says string) *huma.Param {
		return &huma.Param{Name: name, In: "path", Required: true, Description: says, Schema: &huma.Schema{Type: "string"}}
	}
	none := []map[string][]string{} // no API key
	spec.Paths["/webhooks/{gateway}/{account}"] = &huma.PathItem{Post: &huma.Operation{
		OperationID: "take-webhook", Summary: "For payment providers: take a webhook", Security: none,
		Description: "The raw bytes are proven as the provider signs them, the event is stored once, and the payment is looked up. " +
			"At most 1 MiB, without a content encoding. 200 means stored; everything else asks the provider to send it again.",
		Parameters: []*huma.Param{text("gateway", "such as stripe"), text("account", "the account's name in the configuration, such as default")},
		Responses:  map[string]*huma.Response{"200": {Description: "Stored, now or before."}, "default": problems},
	}}
	back := func(id string) *huma.Operation {
		return &huma.Operation{
			OperationID: id, Summary: "For buyers' browsers: come back from a payment provider", Security: none,
			Description: "Nothing in the query or the form is believed. The payment is looked up, and the browser is sent on to the return_url of the payment.",
			Parameters:  []*huma.Param{text("token", "the token of the address the provider was given")},
			Responses: map[string]*huma.Response{
				"303": {Description: "On to the checkout's page."}, "200": {Description: "A page that says how the payment stands, where there is no checkout page."},
				"404": {Description: "A page: there is no such payment."},
			},
		}
	}
	spec.Paths["/return/{token}"] = &huma.PathItem{Get: back("return-get"), Post: back("return-post")}
}
