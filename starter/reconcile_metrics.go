package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orderflow/store"
)

// reconcileMetrics says at every scrape how far providers' books were read and what people still have to explain. It reads the
// database, since the worker that reads the books is another process.
type reconcileMetrics struct {
	st      *store.Store
	reached *prometheus.Desc
	open    *prometheus.Desc
	oldest  *prometheus.Desc
}

func newReconcileMetrics(st *store.Store) *reconcileMetrics {
	labels := []string{"gateway", "account", "environment"}
	return &reconcileMetrics{
		st: st,
		reached: prometheus.NewDesc("orderflow_reconcile_reached_age_seconds",
			"How old the point is up to which an account's books were read. An idle account's grows up to the reconcile window.", labels, nil),
		open:   prometheus.NewDesc("orderflow_orphan_payments_open", "Payments at providers that no order explains and nobody has closed.", nil, nil),
		oldest: prometheus.NewDesc("orderflow_orphan_payments_oldest_age_seconds", "How long the oldest of them has been held.", nil, nil),
	}
}

// Describe is the registry's.
func (m *reconcileMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.reached
	out <- m.open
	out <- m.oldest
}

// Collect is the registry's. What cannot be read is left out: a gauge that is missing alarms, one that is wrong does not.
func (m *reconcileMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if reaches, err := m.st.ReconcileReaches(ctx); err == nil {
		for _, r := range reaches {
			if r.At != nil {
				out <- prometheus.MustNewConstMetric(m.reached, prometheus.GaugeValue, time.Since(*r.At).Seconds(), r.Account.Gateway, r.Account.Name, r.Account.Environment)
			}
		}
	}
	if n, age, err := m.st.OrphansHeld(ctx); err == nil {
		out <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(n))
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, age.Seconds())
	}
}
