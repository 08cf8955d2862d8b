package main

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// trial is an alert and what was scraped: a value a minute of each series, null where it was not there.
type trial struct {
	Expr   string `json:"expr"`
	For    string `json:"for"`
	Series []struct {
		Labels map[string]string `json:"labels"`
		Values []*float64        `json:"values"`
	} `json:"series"`
	Minutes int `json:"minutes"`
}

// tried says of each minute for which labels the alert fires.
type tried struct {
	Firing [][]map[string]string `json:"firing"`
}

// try evaluates the alert once a minute, as Prometheus' rule manager does: it fires when its expression has given the
// same labels for as long as it says.
func try(one trial) (tried, error) {
	wait, err := model.ParseDuration(one.For)
	if one.For == "" {
		wait, err = 0, nil
	}
	if err != nil {
		return tried{}, err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1 << 20, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	defer engine.Close()
	found := tried{Firing: [][]map[string]string{}}
	since := map[string]int{}
	for minute := range one.Minutes {
		query, err := engine.NewInstantQuery(context.Background(), scraped(one), nil, one.Expr, at(minute))
		if err != nil {
			return tried{}, err
		}
		result, err := query.Exec(context.Background()).Vector()
		if err != nil {
			return tried{}, err
		}
		now, firing := map[string]int{}, []map[string]string{}
		for _, sample := range result {
			key := sample.Metric.String()
			began, was := since[key]
			if !was {
				began = minute
			}
			now[key] = began
			if time.Duration(minute-began)*time.Minute >= time.Duration(wait) {
				firing = append(firing, sample.Metric.Map())
			}
		}
		query.Close()
		since, found.Firing = now, append(found.Firing, firing)
	}
	return found, nil
}

func at(minute int) time.Time { return time.Unix(int64(minute)*60, 0) }

// scraped is the trial's series, as a storage.
type scraped trial

func (one scraped) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: one.matching}, nil
}

func (one scraped) matching(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	for _, each := range one.Series {
		fits := true
		for _, matcher := range matchers {
			fits = fits && matcher.Matches(each.Labels[matcher.Name])
		}
		if !fits {
			continue
		}
		samples, isThere := []chunks.Sample{}, false
		for minute, number := range each.Values {
			if number != nil {
				samples = append(samples, sample{at(minute).UnixMilli(), *number})
			} else if isThere {
				samples = append(samples, sample{at(minute).UnixMilli(), math.Float64frombits(value.StaleNaN)})
			}
			isThere = number != nil
		}
		found.series = append(found.series, storage.NewListSeries(labels.FromMap(each.Labels), samples))
	}
	return found
}

type seriesSet struct {
	series []storage.Series
	next   int
}

func (set *seriesSet) Next() bool                        { set.next++; return set.next <= len(set.series) }
func (set *seriesSet) At() storage.Series                { return set.series[set.next-1] }
func (set *seriesSet) Err() error                        { return nil }
func (set *seriesSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	atMs   int64
	number float64
}

func (one sample) T() int64                      { return one.atMs }
func (one sample) ST() int64                     { return 0 }
func (one sample) F() float64                    { return one.number }
func (one sample) H() *histogram.Histogram       { return nil }
func (one sample) FH() *histogram.FloatHistogram { return nil }
func (one sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (one sample) Copy() chunks.Sample           { return one }
