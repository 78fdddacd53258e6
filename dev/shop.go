package main

import (
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"time"
)

// shopPage is the page of the checkout that a buyer comes back to. It believes nothing of its address but the order's id,
// and shows what the API says. While something still moves it asks again.
var shopPage = template.Must(template.New("shop").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{{if .Again}}<meta http-equiv="refresh" content="2">
{{end}}<title>Demo shop</title><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}dt{float:left;width:6rem;color:#666}</style>
</head><body>
<h1>Demo shop</h1>
<p role="status"><strong>{{.Message}}</strong></p>
<dl><dt>Order</dt><dd>{{.ID}}</dd><dt>Promise</dt><dd>{{.States.Order}}</dd><dt>Payment</dt><dd>{{.States.Payment}}</dd><dt>Goods</dt><dd>{{.States.Fulfillment}}</dd></dl>
</body></html>
`))

// startShop serves the checkout's page, the one part of a shop that a buyer's browser meets after the provider's.
func (d *demo) startShop(ctx context.Context) error {
	return d.up(ctx, "the demo shop", func(context.Context) (func() error, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		d.shopURL = "http://" + l.Addr().String()
		srv := &http.Server{Handler: shopHandler(demoClient{base: "http://" + local(d.ports.API)}), ReadHeaderTimeout: 10 * time.Second}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		return func() error {
			err := srv.Close()
			if serve := <-ended; !errors.Is(serve, http.ErrServerClosed) {
				err = errors.Join(err, serve)
			}
			return err
		}, nil
	})
}

func shopHandler(c demoClient) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		v, err := c.view(r.Context(), r.PathValue("id"))
		if err != nil {
			http.Error(w, "The order cannot be read now. Go back to the demo's terminal and look whether everything runs.", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = shopPage.Execute(w, map[string]any{
			"ID": r.PathValue("id"), "States": v.States, "Message": v.Buyer.Message,
			"Again": v.Buyer.State == "checking" || v.Buyer.State == "paid" || v.Buyer.State == "action_needed",
		})
	})
	return mux
}
