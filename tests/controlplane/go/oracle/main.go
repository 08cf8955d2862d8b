// Command oracle answers questions with the released Go implementation: device allocation
// (package structured of k8s.io/dynamic-resource-allocation) and CEL (its package cel, and the
// Kubernetes base environment), and the whole scheduler (package scheduler of k8s.io/kubernetes).
// One JSON object a line in, one a line out, in the same order. The format is in tests/oracle/README.md.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	// The Go libraries log through klog; stderr belongs to our own complaints.
	klog.InitFlags(nil)
	gates := flag.String("feature-gates", "", "as kube-scheduler's")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)

	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			encoded, encodeErr := json.Marshal(answer(text))
			if encodeErr != nil {
				encoded, _ = json.Marshal(map[string]any{"protocol_error": "encoding the answer: " + encodeErr.Error()})
			}
			out.Write(encoded)
			out.WriteByte('\n')
			// Flush only when nobody has another question waiting: a batch costs one write.
			if in.Buffered() == 0 || err != nil {
				out.Flush()
			}
		}
		if err != nil {
			out.Flush()
			return
		}
	}
}

// answer never panics: one question that makes Go panic is an answer too, and the next one follows.
func answer(line []byte) (reply map[string]any) {
	defer func() {
		if problem := recover(); problem != nil {
			reply = map[string]any{"outcome": "panic", "panic": fmt.Sprint(problem)}
		}
	}()
	var header struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &header); err != nil {
		return map[string]any{"protocol_error": "not a JSON object: " + err.Error()}
	}
	switch header.Kind {
	case "allocate":
		return answerAllocate(line)
	case "cel":
		return answerCEL(line)
	case "scheduler-verdicts":
		return answerVerdicts(line)
	case "scheduler-config":
		return answerSchedulerConfig(line)
	default:
		return map[string]any{"protocol_error": fmt.Sprintf("kind %q: tests/oracle/README.md has the kinds", header.Kind)}
	}
}
