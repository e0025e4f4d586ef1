package prometheus

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Series is a series in an answer of Prometheus.
type Series struct {
	Metric map[string]string   `json:"metric"`
	Values [][2]any            `json:"values"`
	Value  *[2]json.RawMessage `json:"value"`
}

// Float returns the value of an instant query, or NaN if there is none.
func (s Series) Float() float64 {
	text := ""
	if s.Value == nil || json.Unmarshal(s.Value[1], &text) != nil {
		return math.NaN()
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// Query evaluates an expression at the current time.
func (p *Prometheus) Query(expression string) ([]Series, error) {
	var data struct{ Result []Series }
	err := p.Get("query", url.Values{"query": {expression}}, &data)
	return data.Result, err
}

// QueryRange evaluates an expression from the start of Prometheus until one second from now, so that the newest sample is included.
func (p *Prometheus) QueryRange(expression string) ([]Series, error) {
	var data struct{ Result []Series }
	at := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli()/1000, 10) }
	err := p.Get("query_range", url.Values{
		"query": {expression}, "start": {at(p.startedAt)}, "end": {at(time.Now().Add(time.Second))}, "step": {p.interval.String()},
	}, &data)
	return data.Result, err
}

// Get calls an endpoint of Prometheus's API and decodes the data of its answer. It returns an error if the answer has warnings.
func (p *Prometheus) Get(path string, parameters url.Values, into any) error {
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.address+"/api/v1/"+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
		Warnings      []string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return fmt.Errorf("%s: %s %q", response.Status, answer.Error, answer.Warnings)
	}
	return json.Unmarshal(answer.Data, into)
}
