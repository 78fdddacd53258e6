package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orderflow/starter/idempotency"
)

// Metrics are what the API counts. Labels are routes, methods, statuses and outcomes: never ids.
type Metrics struct {
	requests *prometheus.HistogramVec
	guard    *prometheus.CounterVec
	lookups  *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orderflow_http_request_duration_seconds", Help: "API requests by route, method and status.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method", "status"}),
		guard: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_idempotency_total", Help: "Guarded requests by what became of them.",
		}, []string{"outcome"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_api_lookups_total", Help: "Lookups asked for by readers of an order, by whether the rate allowed them.",
		}, []string{"result"}),
	}
	r.MustRegister(m.requests, m.guard, m.lookups)
	return m
}

func (m *Metrics) request(route, method string, status int, took time.Duration) {
	if m == nil {
		return
	}
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		method = "other" // a client chooses this word
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *Metrics) outcome(o idempotency.Outcome) {
	if m != nil {
		m.guard.WithLabelValues(string(o)).Inc()
	}
}

func (m *Metrics) lookup(result string) {
	if m != nil {
		m.lookups.WithLabelValues(result).Inc()
	}
}
