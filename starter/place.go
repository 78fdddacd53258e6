package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"orderflow/internal/money"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/starter/api"
)

type placeCommand struct {
	API      string        `help:"Address of the API." default:"http://127.0.0.1:8080" env:"ORDERFLOW_API"`
	APIKey   secret.Value  `kong:"-"` // from ORDERFLOW_API_KEY only, so that no process list shows it
	Key      string        `help:"Idempotency key; left out, made from the order id." name:"idempotency-key"`
	ID       string        `required:"" help:"The order's id."`
	Currency string        `required:"" help:"ISO 4217, such as JPY."`
	Line     []string      `required:"" sep:"none" help:"sku,quantity,amount,action[,issuer]: the amount of one piece in main units, such as 80.50. May be repeated."`
	Discount string        `help:"Taken off, in main units."`
	Shipping string        `help:"Added, in main units."`
	Tax      string        `help:"Added, in main units."`
	Buyer    string        `help:"Your reference to the buyer."`
	Expires  time.Duration `help:"How long the order may be paid." default:"24h"`
}

// Run sends the order. Amounts that cannot be said in whole minor units are refused, never rounded.
func (p placeCommand) Run(ctx context.Context, s *streams) error {
	if p.APIKey.IsZero() {
		p.APIKey = secret.New(env.ToMap(s.environ)["ORDERFLOW_API_KEY"])
	}
	if p.APIKey.IsZero() {
		return errors.New("ORDERFLOW_API_KEY is missing: set it to an API key with the scope checkout")
	}
	req, err := p.request(time.Now())
	if err != nil {
		return err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	key := p.Key
	if key == "" {
		sum := sha256.Sum256([]byte(p.ID))
		key = "place-" + hex.EncodeToString(sum[:])
	}
	status, answer, err := post(ctx, strings.TrimRight(p.API, "/")+"/v1/orders", p.APIKey, key, body)
	if err != nil {
		return err
	}
	_, _ = s.out.Write(answer)
	if status/100 != 2 {
		say(s, "the API refused the order: HTTP "+strconv.Itoa(status))
		return exitCode(2)
	}
	return nil
}

func (p placeCommand) request(now time.Time) (api.OrderRequest, error) {
	cur := money.Currency(p.Currency)
	req := api.OrderRequest{ID: p.ID, Currency: p.Currency, BuyerRef: p.Buyer, ExpiresAt: now.Add(p.Expires).UTC().Truncate(time.Second)}
	for i, text := range p.Line {
		l, err := parseLine(text, cur)
		if err != nil {
			return req, fmt.Errorf("--line number %d: %w", i+1, err)
		}
		req.Lines = append(req.Lines, l)
		req.Total += l.UnitAmount * int64(l.Quantity)
	}
	for _, adj := range []struct {
		kind, text string
		sign       int64
	}{{"discount", p.Discount, -1}, {"shipping", p.Shipping, 1}, {"tax", p.Tax, 1}} {
		if adj.text == "" {
			continue
		}
		a, err := money.Parse(adj.text, cur)
		if err != nil || a.Minor < 0 {
			return req, fmt.Errorf("--%s: must be an amount such as 80.50 that %s can say exactly", adj.kind, p.Currency)
		}
		req.Adjustments = append(req.Adjustments, api.AdjustmentRequest{Kind: adj.kind, Amount: adj.sign * a.Minor})
		req.Total += adj.sign * a.Minor
	}
	return req, nil
}

func parseLine(text string, cur money.Currency) (api.LineRequest, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 && len(parts) != 5 {
		return api.LineRequest{}, errors.New("write sku,quantity,amount,action[,issuer]")
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 || n > 10_000 {
		return api.LineRequest{}, errors.New("the quantity must be a whole number from 1 to 10000")
	}
	a, err := money.Parse(parts[2], cur)
	if err != nil {
		return api.LineRequest{}, fmt.Errorf("the amount: %w", err)
	}
	if a.Minor < 0 || a.Minor > 100_000_000 {
		return api.LineRequest{}, errors.New("the amount is out of range")
	}
	if a := order.Action(parts[3]); !a.Internal() && a != order.ActionIssue {
		return api.LineRequest{}, errors.New("the action must be stock, grant or issue (a decimal point is written as a point)")
	}
	l := api.LineRequest{SKU: parts[0], Name: parts[0], Quantity: n, UnitAmount: a.Minor, Action: parts[3]}
	if len(parts) == 5 {
		l.Issuer = parts[4]
	}
	return l, nil
}

func post(ctx context.Context, url string, apiKey secret.Value, key string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("--api must be an address such as http://127.0.0.1:8080")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+apiKey.Reveal())
	req.Header.Set("Idempotency-Key", strconv.Quote(key))
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return 0, nil, errors.New("the API does not answer: is starter serve running?")
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return resp.StatusCode, answer, err
}
