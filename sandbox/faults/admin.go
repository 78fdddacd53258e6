package faults

import (
	"encoding/json"
	"net/http"
	"time"
)

// Handler is the admin API: /admin/faults, /admin/faults/{id}, /admin/faults/{id}/release and /admin/latency.
func (in *Injector) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		JSON(http.StatusOK, map[string]any{"faults": in.List()}).Write(w)
	})
	mux.HandleFunc("POST /admin/faults", in.post)
	mux.HandleFunc("DELETE /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		in.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		s, ok := in.Get(r.PathValue("id"))
		if !ok {
			refuse(w, http.StatusNotFound, "there is no fault with this id; GET /admin/faults lists them")
			return
		}
		JSON(http.StatusOK, s).Write(w)
	})
	mux.HandleFunc("DELETE /admin/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !in.Remove(r.PathValue("id")) {
			refuse(w, http.StatusNotFound, "there is no fault with this id; GET /admin/faults lists them")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /admin/faults/{id}/release", func(w http.ResponseWriter, r *http.Request) {
		if !in.Release(r.PathValue("id")) {
			refuse(w, http.StatusNotFound, "there is no fault with this id; GET /admin/faults lists them")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/latency", func(w http.ResponseWriter, _ *http.Request) { in.latencies().Write(w) })
	mux.HandleFunc("POST /admin/latency", in.postLatency)
	return mux
}

func (in *Injector) post(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&f); err != nil {
		refuse(w, http.StatusBadRequest, "the body must be one fault as JSON: "+err.Error())
		return
	}
	id, err := in.Add(f)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s, _ := in.Get(id)
	JSON(http.StatusCreated, s).Write(w)
}

func (in *Injector) postLatency(w http.ResponseWriter, r *http.Request) {
	var body map[Target]string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, `the body must be JSON such as {"stripe":"50ms","issuer":"0s"}`)
		return
	}
	for target, text := range body {
		d, err := time.ParseDuration(text)
		if err == nil {
			err = in.SetLatency(target, d)
		}
		if err != nil {
			refuse(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
	}
	in.latencies().Write(w)
}

func (in *Injector) latencies() Answer {
	out := map[Target]string{}
	for t := range in.delay {
		out[t] = in.Latency(t).String()
	}
	return JSON(http.StatusOK, out)
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	JSON(status, map[string]string{"error": sentence}).Write(w)
}
