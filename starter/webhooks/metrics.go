package webhooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orderflow/order"
	"orderflow/store"
)

// Metrics are what webhooks count. Labels are gateways and results: never ids, and never a word a sender chose.
type Metrics struct {
	in      *prometheus.CounterVec
	out     *prometheus.CounterVec
	lag     *prometheus.HistogramVec
	clock   *prometheus.HistogramVec
	look    *prometheus.CounterVec
	queue   prometheus.Gauge
	orphans *prometheus.CounterVec
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		in: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_webhooks_received_total", Help: "Webhooks by gateway and what they were answered for.",
		}, []string{"gateway", "result"}),
		out: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_webhooks_processed_total", Help: "Stored webhooks by gateway and what became of them.",
		}, []string{"gateway", "result"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orderflow_webhook_lag_seconds", Help: "From receiving a webhook to having processed it.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900},
		}, []string{"gateway"}),
		clock: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orderflow_webhook_clock_skew_seconds", Help: "Our clock minus the time in the webhook. Below zero, one of the clocks is wrong; far above, the webhook is late.",
			Buckets: []float64{-3600, -300, -60, -5, -1, 0, 1, 5, 60, 300, 3600, 86400},
		}, []string{"gateway"}),
		look: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_wanted_looks_total", Help: "Looks that webhooks and returning buyers asked for, by whether a run was told.",
		}, []string{"result"}),
		queue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "orderflow_wanted_looks_waiting", Help: "Looks that wait for their turn, over all processes, when last counted.",
		}),
		orphans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orderflow_orphan_payments_total", Help: "Webhooks about money that no order explains.",
		}, []string{"gateway"}),
	}
	r.MustRegister(m.in, m.out, m.lag, m.clock, m.look, m.queue, m.orphans)
	return m
}

func (m *Metrics) received(gateway, result string) {
	if m != nil {
		m.in.WithLabelValues(gateway, result).Inc()
	}
}

func (m *Metrics) processed(p store.Processed) {
	if m == nil {
		return
	}
	if p.Result == "" {
		m.out.WithLabelValues(p.Account.Gateway, "waits").Inc()
		return
	}
	m.out.WithLabelValues(p.Account.Gateway, p.Result).Inc()
	m.lag.WithLabelValues(p.Account.Gateway).Observe(p.Age.Seconds())
	if p.Result == store.ReceiptOrphan {
		m.orphans.WithLabelValues(p.Account.Gateway).Inc()
	}
}

func (m *Metrics) skew(a order.Account, d time.Duration) {
	if m != nil {
		m.clock.WithLabelValues(a.Gateway).Observe(d.Seconds())
	}
}

func (m *Metrics) looks(result string, n int) {
	if m != nil && n > 0 {
		m.look.WithLabelValues(result).Add(float64(n))
	}
}

func (m *Metrics) waiting(n int64) {
	if m != nil {
		m.queue.Set(float64(n))
	}
}
