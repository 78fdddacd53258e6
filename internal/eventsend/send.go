// Package eventsend sends one outgoing event to one receiver, signed as Standard Webhooks 1.0.0 says.
//
// It must not know orders, storage or schedules: it sends once and says what came of it; the outbox decides what is next.
// It may import internal/fault and internal/secret.
package eventsend

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orderflow/internal/fault"
)

const (
	op = "event send"
	// maxAnswer is how much of a receiver's answer is read and thrown away, so that the connection can be used again.
	maxAnswer = 4 << 10
	maxID     = 128
)

// Event is one event on its way to one receiver.
type Event struct {
	// ID is the same for every sending of the event; receivers recognize repeats by it. Letters, digits, "-" and "_".
	ID string
	// Timestamp is the time of this sending, not of what the event tells about: receivers refuse one that is more than some
	// minutes old. Zero = now.
	Timestamp time.Time
	// Body is sent as it is, and stays under MaxBody.
	Body []byte
}

// Sender sends events over one shared pool of connections. It is safe for concurrent use.
type Sender struct {
	config Config
	client *http.Client
	now    func() time.Time
}

// New makes a sender, or refuses with a sentence that says what to set. It uses no proxy, whatever the environment says:
// the address that is checked has to be the receiver's own.
func New(config Config) (*Sender, error) {
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	if config.MaxRetryAfter == 0 {
		config.MaxRetryAfter = DefaultMaxRetryAfter
	}
	if config.Timeout < 100*time.Millisecond {
		return nil, errors.New("event receivers: set the timeout to 100ms or more")
	}
	if config.MaxRetryAfter < 0 {
		return nil, errors.New("event receivers: set the longest Retry-After to a duration above zero")
	}
	dialer := &net.Dialer{Timeout: config.Timeout, Control: config.control}
	return &Sender{
		config: config,
		now:    time.Now,
		client: &http.Client{
			Timeout:       config.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:            dialer.DialContext,
				ForceAttemptHTTP2:      true,
				MaxIdleConns:           256,
				MaxIdleConnsPerHost:    32,
				IdleConnTimeout:        time.Minute,
				TLSHandshakeTimeout:    config.Timeout,
				MaxResponseHeaderBytes: 64 << 10,
				DisableCompression:     true,
			},
		},
	}, nil
}

// Close lets go of resting connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// Send sends an event once. nil means that the receiver took it: a 2xx, and nothing else. The faults:
// delivery_rate_limited (429, 502, 503, 504), delivery_gone (410), delivery_failed (any other answer, or none: it may have
// been taken, and is sent again with the same id), internal_error (an event or receiver that our own checks should have
// stopped; nothing was sent). RetryAfter holds what the receiver asked for, capped.
func (s *Sender) Send(ctx context.Context, r Receiver, e Event) error {
	keys, err := s.keysOf(r)
	if err != nil {
		return failed(fault.InternalError, r, "bad_receiver", err)
	}
	if err := checkEvent(e); err != nil {
		return failed(fault.InternalError, r, "bad_event", err)
	}
	if e.Timestamp.IsZero() {
		e.Timestamp = s.now()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(e.Body))
	if err != nil {
		return failed(fault.InternalError, r, "bad_receiver", err)
	}
	stamp := strconv.FormatInt(e.Timestamp.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "orderflow")
	req.Header.Set("Webhook-Id", e.ID)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(keys, e.ID, stamp, e.Body))
	resp, err := s.client.Do(req)
	if err != nil {
		word := ""
		if errors.Is(err, errAddress) {
			word = "address_refused"
		}
		return failed(fault.DeliveryFailed, r, word, err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // the status has said everything
	_ = resp.Body.Close()
	return s.judge(r, resp)
}

// checkEvent refuses what a receiver could not take, before anything is sent.
func checkEvent(e Event) error {
	switch {
	case e.ID == "" || len(e.ID) > maxID || strings.Trim(e.ID, wordChars) != "":
		return errors.New("the event's id must be 1 to 128 letters, digits, \"-\" or \"_\"")
	case len(e.Body) == 0:
		return errors.New("the event has no body")
	case len(e.Body) >= MaxBody:
		return fmt.Errorf("the event's body has %d bytes and must stay under %d: send ids and let the receiver ask", len(e.Body), MaxBody)
	}
	return nil
}

func (s *Sender) judge(r Receiver, resp *http.Response) error {
	var code fault.Code
	switch status := resp.StatusCode; {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone:
		code = fault.DeliveryGone
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		code = fault.DeliveryRateLimited
	default:
		code = fault.DeliveryFailed
	}
	f := failed(code, r, "", nil)
	f.Provider.HTTPStatus = resp.StatusCode
	f.RetryAfter = min(fault.ParseRetryAfter(resp.Header.Get("Retry-After"), s.now()), s.config.MaxRetryAfter)
	return f
}

// failed makes a fault. word is ours, for a fault that the receiver had no part in.
func failed(code fault.Code, r Receiver, word string, cause error) *fault.Error {
	f := fault.Wrap(code, op, cause)
	f.Provider = fault.Provider{Name: r.Name, Code: word}
	return f
}

// sign makes one signature per key over "id.timestamp.body", separated by spaces: while a secret is being changed, the
// receiver finds one that fits whichever it has.
func sign(keys [][]byte, id, stamp string, body []byte) string {
	var out []byte
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = io.WriteString(mac, id+"."+stamp+".")
		mac.Write(body)
		if out != nil {
			out = append(out, ' ')
		}
		out = base64.StdEncoding.AppendEncode(append(out, "v1,"...), mac.Sum(nil))
	}
	return string(out)
}
