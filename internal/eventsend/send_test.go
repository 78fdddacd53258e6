package eventsend_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"orderflow/internal/eventsend"
	"orderflow/internal/fault"
	"orderflow/internal/secret"
)

func secretText(first byte, size int) string {
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = first + byte(i)*3
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(raw)
}

// inbox is a receiver over real HTTP that keeps what came.
type inbox struct {
	server *httptest.Server
	answer http.HandlerFunc // nil = 204

	mu    sync.Mutex
	got   []*http.Request
	body  [][]byte
	peers map[string]bool
}

func newInbox(t *testing.T, answer http.HandlerFunc) *inbox {
	t.Helper()
	in := &inbox{answer: answer, peers: map[string]bool{}}
	in.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		in.got, in.body = append(in.got, r), append(in.body, body)
		in.peers[r.RemoteAddr] = true
		in.mu.Unlock()
		if in.answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		in.answer(w, r)
	}))
	t.Cleanup(in.server.Close)
	return in
}

func (in *inbox) receiver() eventsend.Receiver {
	return eventsend.Receiver{Name: "mail", URL: in.server.URL + "/hook?a=1", Secret: secret.New(secretText(1, 32))}
}

func (in *inbox) visits() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.got)
}

var local = eventsend.Config{AllowHTTP: true, AllowLoopback: true}

func sender(t *testing.T, c eventsend.Config) *eventsend.Sender {
	t.Helper()
	s, err := eventsend.New(c)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func event() eventsend.Event {
	return eventsend.Event{ID: "msg_1", Body: []byte(`{"type":"order.paid","data":{"name":"ギフト券 <&>"}}`)}
}

func TestAnOutsideJudgeAcceptsTheSignature(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	require.NoError(t, sender(t, local).Send(t.Context(), in.receiver(), event()))
	judge, err := standardwebhooks.NewWebhook(in.receiver().Secret.Reveal())
	require.NoError(t, err)
	require.NoError(t, judge.Verify(in.body[0], in.got[0].Header))
	require.Equal(t, event().Body, in.body[0])
	require.Equal(t, "msg_1", in.got[0].Header.Get("webhook-id"))
	require.Equal(t, "application/json", in.got[0].Header.Get("Content-Type"))
	require.Equal(t, "POST /hook?a=1", in.got[0].Method+" "+in.got[0].URL.RequestURI())

	// The judge is able to say no.
	require.Error(t, judge.Verify(append(bytes.Clone(in.body[0]), ' '), in.got[0].Header))
	other, err := standardwebhooks.NewWebhook(secretText(2, 32))
	require.NoError(t, err)
	require.Error(t, other.Verify(in.body[0], in.got[0].Header))
}

func TestBothSecretsSignWhileOneIsBeingChanged(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	r := in.receiver()
	r.Secret, r.PreviousSecret = secret.New(secretText(1, 24)), secret.New(secretText(9, 64))
	require.NoError(t, sender(t, local).Send(t.Context(), r, event()))
	for _, text := range []string{r.Secret.Reveal(), r.PreviousSecret.Reveal()} {
		judge, err := standardwebhooks.NewWebhook(text)
		require.NoError(t, err)
		require.NoError(t, judge.Verify(in.body[0], in.got[0].Header))
	}
	signatures := strings.Split(in.got[0].Header.Get("webhook-signature"), " ")
	require.Len(t, signatures, 2)
	require.NotEqual(t, signatures[0], signatures[1])
}

func TestTheTimestampIsTheSendingsOwn(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	e := event()
	e.Timestamp = time.Unix(1_700_000_000, 999)
	require.NoError(t, sender(t, local).Send(t.Context(), in.receiver(), e))
	require.Equal(t, "1700000000", in.got[0].Header.Get("webhook-timestamp"))
	judge, err := standardwebhooks.NewWebhook(in.receiver().Secret.Reveal())
	require.NoError(t, err)
	require.ErrorIs(t, judge.Verify(in.body[0], in.got[0].Header), standardwebhooks.ErrMessageTooOld)
	require.NoError(t, judge.VerifyIgnoringTimestamp(in.body[0], in.got[0].Header))
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fault.Code{
		200: "", 201: "", 202: "", 204: "", 299: "",
		300: fault.DeliveryFailed, 301: fault.DeliveryFailed, 304: fault.DeliveryFailed, 400: fault.DeliveryFailed, 401: fault.DeliveryFailed,
		404: fault.DeliveryFailed, 409: fault.DeliveryFailed, 422: fault.DeliveryFailed, 500: fault.DeliveryFailed, 501: fault.DeliveryFailed,
		410: fault.DeliveryGone,
		429: fault.DeliveryRateLimited, 502: fault.DeliveryRateLimited, 503: fault.DeliveryRateLimited, 504: fault.DeliveryRateLimited,
	} {
		in := newInbox(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(status)
		})
		err := sender(t, local).Send(t.Context(), in.receiver(), event())
		require.Equal(t, 1, in.visits(), "%d is not sent twice", status)
		if want == "" {
			require.NoError(t, err, "%d", status)
			continue
		}
		require.True(t, fault.IsCode(err, want), "%d: %v", status, err)
		require.Equal(t, fault.Provider{Name: "mail", HTTPStatus: status}, fault.As(err).Provider)
		require.Equal(t, 2*time.Minute, fault.As(err).RetryAfter)
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "1": time.Second, "999999": time.Minute, "99999999999999999999": time.Minute, "-1": 0, "x": 0,
		"Fri, 31 Dec 2106 23:59:59 GMT": time.Minute, "Fri, 31 Dec 1999 23:59:59 GMT": 0,
	} {
		in := newInbox(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		c := local
		c.MaxRetryAfter = time.Minute
		err := sender(t, c).Send(t.Context(), in.receiver(), event())
		require.Equal(t, want, fault.As(err).RetryAfter, header)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := newInbox(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		in := newInbox(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.server.URL, status) })
		err := sender(t, local).Send(t.Context(), in.receiver(), event())
		require.True(t, fault.IsCode(err, fault.DeliveryFailed), "%v", err)
	}
	require.Zero(t, elsewhere.visits())
}

func TestTheDialedAddressIsChecked(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	port := in.server.URL[strings.LastIndex(in.server.URL, ":")+1:]
	strict := sender(t, eventsend.Config{AllowHTTP: true, AllowPrivate: true})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "[::]", "2130706433", "127.1"} {
		r := in.receiver()
		r.URL = "http://" + host + ":" + port
		err := strict.Send(t.Context(), r, event())
		require.True(t, fault.IsCode(err, fault.DeliveryFailed), "%s: %v", host, err)
		if strings.ContainsAny(host, ":") || host == "127.0.0.1" || host == "localhost" || host == "0.0.0.0" {
			require.Equal(t, "address_refused", fault.As(err).Provider.Code, host)
		}
	}
	require.Zero(t, in.visits())
	require.NoError(t, sender(t, local).Send(t.Context(), in.receiver(), event()), "the same receiver is reached where it is allowed")
}

func TestNoProxyIsUsed(t *testing.T) {
	proxy, in := newInbox(t, nil), newInbox(t, nil)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.server.URL)
	}
	t.Setenv("NO_PROXY", "")
	require.NoError(t, sender(t, local).Send(t.Context(), in.receiver(), event()))
	r := in.receiver()
	r.URL = "http://receiver.invalid/hook"
	require.Error(t, sender(t, local).Send(t.Context(), r, event()))
	require.Zero(t, proxy.visits())
}

func TestAnUntrustedCertificateIsRefused(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	r := newInbox(t, nil).receiver()
	r.URL = server.URL
	err := sender(t, eventsend.Config{AllowLoopback: true}).Send(t.Context(), r, event())
	require.True(t, fault.IsCode(err, fault.DeliveryFailed), "%v", err)
	require.Zero(t, visits.Load())
}

func TestOnlyTheStatusOfALongAnswerMatters(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fault.Code{200: "", 500: fault.DeliveryFailed} {
		var written atomic.Int64
		in := newInbox(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			for r.Context().Err() == nil && written.Load() < 1<<30 {
				n, err := io.WriteString(w, strings.Repeat("x", 1<<16))
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		err := sender(t, local).Send(t.Context(), in.receiver(), event())
		if want == "" {
			require.NoError(t, err)
		} else {
			require.True(t, fault.IsCode(err, want), "%v", err)
		}
		require.Less(t, written.Load(), int64(64<<20), "the rest is not read")
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	t.Run("TimeoutFails", func(t *testing.T) {
		t.Parallel()
		c := local
		c.Timeout = 150 * time.Millisecond
		err := sender(t, c).Send(context.Background(), newInbox(t, hang).receiver(), event())
		require.True(t, fault.IsCode(err, fault.DeliveryFailed), "%v", err)
	})
	t.Run("CancelFails", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		err := sender(t, local).Send(ctx, newInbox(t, hang).receiver(), event())
		require.True(t, fault.IsCode(err, fault.DeliveryFailed), "%v", err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("CutFailsAndIsNotSentAgain", func(t *testing.T) {
		t.Parallel()
		in := newInbox(t, nil)
		s := sender(t, local)
		require.NoError(t, s.Send(t.Context(), in.receiver(), event())) // a resting connection for the next one
		in.answer = cut
		require.True(t, fault.IsCode(s.Send(t.Context(), in.receiver(), event()), fault.DeliveryFailed))
		require.Equal(t, 2, in.visits())
	})
	t.Run("NobodyThereFails", func(t *testing.T) {
		t.Parallel()
		in := newInbox(t, nil)
		in.server.Close()
		require.True(t, fault.IsCode(sender(t, local).Send(t.Context(), in.receiver(), event()), fault.DeliveryFailed))
	})
}

func TestConnectionsAreShared(t *testing.T) {
	t.Parallel()
	in := newInbox(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thank you") })
	s := sender(t, local)
	for range 20 {
		require.NoError(t, s.Send(t.Context(), in.receiver(), event()))
	}
	require.Len(t, in.peers, 1)
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	s := sender(t, local)
	var wg sync.WaitGroup
	for n := range 32 {
		wg.Go(func() {
			e := event()
			e.ID = fmt.Sprintf("msg_%d", n)
			if err := s.Send(t.Context(), in.receiver(), e); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	judge, err := standardwebhooks.NewWebhook(in.receiver().Secret.Reveal())
	require.NoError(t, err)
	for i, r := range in.got {
		require.NoError(t, judge.Verify(in.body[i], r.Header))
	}
}

func TestEventsThatAreNotSent(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	s := sender(t, local)
	e := event()
	e.Body = bytes.Repeat([]byte("x"), eventsend.MaxBody-1)
	require.NoError(t, s.Send(t.Context(), in.receiver(), e), "the longest body")
	for name, spoil := range map[string]func(*eventsend.Event){
		"BodyTooLong":    func(e *eventsend.Event) { e.Body = bytes.Repeat([]byte("mArKeR"), eventsend.MaxBody/6+1) },
		"NoBody":         func(e *eventsend.Event) { e.Body = nil },
		"NoID":           func(e *eventsend.Event) { e.ID = "" },
		"IDWithDot":      func(e *eventsend.Event) { e.ID = "a.b" }, // the signed text uses dots to separate
		"IDWithBreak":    func(e *eventsend.Event) { e.ID = "a\r\nX-mArKeR: 1" },
		"IDOfOtherChars": func(e *eventsend.Event) { e.ID = "é" },
	} {
		e := event()
		spoil(&e)
		err := s.Send(t.Context(), in.receiver(), e)
		require.True(t, fault.IsCode(err, fault.InternalError), "%s: %v", name, err)
		require.Equal(t, "bad_event", fault.As(err).Provider.Code)
		require.NotContains(t, err.Error(), "mArKeR")
		require.NotContains(t, fault.As(err).Cause.Error(), "mArKeR")
	}
	require.Equal(t, 1, in.visits())
}

func TestReceiversThatAreRefused(t *testing.T) {
	t.Parallel()
	strict := sender(t, eventsend.Config{})
	good := eventsend.Receiver{Name: "mail", URL: "https://receiver.example/hook?token=1", Secret: secret.New(secretText(1, 24)), PreviousSecret: secret.New(secretText(5, 64))}
	require.NoError(t, strict.Check(good))
	for name, tc := range map[string]struct {
		change func(*eventsend.Receiver)
		says   string
	}{
		"NoName":           {func(r *eventsend.Receiver) { r.Name = "" }, "set a name"},
		"OddName":          {func(r *eventsend.Receiver) { r.Name = "a b" }, "set a name"},
		"NoURL":            {func(r *eventsend.Receiver) { r.URL = "" }, "https URL"},
		"NoHost":           {func(r *eventsend.Receiver) { r.URL = "https:///x" }, "https URL"},
		"OtherScheme":      {func(r *eventsend.Receiver) { r.URL = "file:///etc/passwd" }, "https URL"},
		"NotAURL":          {func(r *eventsend.Receiver) { r.URL = "https://a b/mArKeR" }, "https URL"},
		"NoTLS":            {func(r *eventsend.Receiver) { r.URL = "http://receiver.example/mArKeR" }, "use https"},
		"Password":         {func(r *eventsend.Receiver) { r.URL = "https://u:mArKeR@receiver.example" }, "leave user"},
		"Fragment":         {func(r *eventsend.Receiver) { r.URL = "https://receiver.example/#" }, "leave user"},
		"NoSecret":         {func(r *eventsend.Receiver) { r.Secret = secret.Value{} }, "its secret is missing"},
		"NoPrefix":         {func(r *eventsend.Receiver) { r.Secret = secret.New(strings.TrimPrefix(secretText(1, 32), "whsec_")) }, "whsec_"},
		"OnlyPrefix":       {func(r *eventsend.Receiver) { r.Secret = secret.New("whsec_") }, "has 0 bytes"},
		"ShortSecret":      {func(r *eventsend.Receiver) { r.Secret = secret.New(secretText(1, 23)) }, "has 23 bytes"},
		"LongSecret":       {func(r *eventsend.Receiver) { r.Secret = secret.New(secretText(1, 65)) }, "has 65 bytes"},
		"NotBase64":        {func(r *eventsend.Receiver) { r.Secret = secret.New("whsec_mArKeR-mArKeR-mArKeR-mArKeR-mArKeR") }, "base64"},
		"LineBreak":        {func(r *eventsend.Receiver) { r.Secret = secret.New(secretText(1, 32) + "\n") }, "base64"},
		"Unpadded":         {func(r *eventsend.Receiver) { r.Secret = secret.New(strings.TrimRight(secretText(1, 32), "=")) }, "padded base64"},
		"ZeroSecret":       {func(r *eventsend.Receiver) { r.Secret = secret.New("whsec_" + strings.Repeat("A", 32)) }, "over and over"},
		"BadPreviousValue": {func(r *eventsend.Receiver) { r.PreviousSecret = secret.New("mArKeR") }, "previous secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good
			tc.change(&r)
			err := strict.Check(r)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "mArKeR")
			sent := strict.Send(t.Context(), r, event())
			require.True(t, fault.IsCode(sent, fault.InternalError), "%v", sent)
			require.NotContains(t, sent.Error(), "mArKeR")
		})
	}
}

func TestConfigurationsThatDoNotStart(t *testing.T) {
	t.Parallel()
	for _, c := range []eventsend.Config{{Timeout: time.Millisecond}, {Timeout: -1}, {MaxRetryAfter: -1}} {
		s, err := eventsend.New(c)
		require.ErrorContains(t, err, "set the")
		require.Nil(t, s)
	}
}

func TestFaultsShowNeitherURLNorSecret(t *testing.T) {
	t.Parallel()
	in := newInbox(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "mArKeR")
	})
	r := in.receiver()
	r.URL = in.server.URL + "/mArKeR?token=mArKeR"
	err := sender(t, local).Send(t.Context(), r, event())
	require.NotContains(t, err.Error(), "mArKeR")
	in.server.Close()
	err = sender(t, local).Send(t.Context(), r, event())
	require.NotContains(t, err.Error(), "mArKeR")
	require.NotContains(t, fmt.Sprintf("%+v", r), strings.TrimPrefix(secretText(1, 32), "whsec_"))
}

func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	s, err := eventsend.New(local)
	require.NoError(b, err)
	defer s.Close()
	r := eventsend.Receiver{Name: "mail", URL: server.URL, Secret: secret.New(secretText(1, 32))}
	for b.Loop() {
		if err := s.Send(context.Background(), r, event()); err != nil {
			b.Fatal(err)
		}
	}
}
