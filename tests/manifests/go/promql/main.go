// promql reads from stdin, a line of JSON each, expressions of Prometheus (a string) and alerts to be tried (an object).
// It prints for each expression what it selects, and for each alert when it fires.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

// answer says which series an expression selects, by which labels it groups, or why it does not parse.
type answer struct {
	Error   string     `json:"error,omitempty"`
	Selects []selector `json:"selects"`
	Groups  []string   `json:"groups"`
}

type selector struct {
	Metric string `json:"metric"`
	// The values that are asked for, by label.
	Labels map[string]string `json:"labels"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		said, err := answered(in.Bytes())
		if err == nil {
			err = out.Encode(said)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

func answered(line []byte) (any, error) {
	if line[0] == '{' {
		var one trial
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, err
		}
		return try(one)
	}
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return nil, err
	}
	return read(text), nil
}

func read(text string) answer {
	found := answer{Selects: []selector{}, Groups: []string{}}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch one := node.(type) {
		case *parser.VectorSelector:
			what := selector{Metric: one.Name, Labels: map[string]string{}}
			for _, matcher := range one.LabelMatchers {
				if matcher.Name != "__name__" {
					what.Labels[matcher.Name] = matcher.Value
				}
			}
			found.Selects = append(found.Selects, what)
		case *parser.AggregateExpr:
			found.Groups = append(found.Groups, one.Grouping...)
		}
		return nil
	})
	return found
}
