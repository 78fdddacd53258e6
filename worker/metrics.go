package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"

	"orderflow/activities"
)

// metrics are what a worker counts: its requests to other parties, what Temporal's SDK counts, and the process itself.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.HistogramVec
	sdk      client.MetricsHandler
}

func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "orderflow_outside_request_duration_seconds",
		Help: "Requests to providers, issuers and receivers by what they asked and by the code of what came of it.",
		// From a warm connection's answer to the longest time-out anybody would configure.
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"party", "name", "operation", "result"})
	m.registry.MustRegister(m.calls, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("temporal-sdk")
	m.sdk = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{Meter: meter})
	return m, nil
}

func (m *metrics) called(c activities.Call) {
	m.calls.WithLabelValues(c.Party, c.Name, c.Operation, c.Result).Observe(c.Took.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
