// What compress.py compares with: pgzip on one core. Prints a line of JSON for each block size: megabytes of
// text for each second of CPU, both ways, and how much smaller it got.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/klauspost/pgzip"
)

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	text, err := os.ReadFile(os.Args[1])
	check(err)
	for _, block := range []int{256 << 10, 1 << 20} {
		var there, back time.Duration = 1 << 62, 1 << 62
		var packed bytes.Buffer
		packed.Grow(len(text))
		for round := 0; round < 3; round++ {
			packed.Reset()
			began := cpu()
			writer, err := pgzip.NewWriterLevel(&packed, gzip.BestSpeed)
			check(err)
			check(writer.SetConcurrency(block, 1))
			_, err = writer.Write(text)
			check(err)
			check(writer.Close())
			there = min(there, cpu()-began)
			began = cpu()
			reader, err := pgzip.NewReader(bytes.NewReader(packed.Bytes()))
			check(err)
			size, err := io.Copy(io.Discard, reader)
			check(err)
			if size != int64(len(text)) {
				check(fmt.Errorf("%d bytes came back of %d", size, len(text)))
			}
			back = min(back, cpu()-began)
		}
		megabytes := float64(len(text)) / 1e6
		check(json.NewEncoder(os.Stdout).Encode(map[string]any{
			"codec":         fmt.Sprintf("pgzip BestSpeed, blocks of %d KiB", block>>10),
			"compress_mb_s": int(megabytes / there.Seconds()),
			"decode_mb_s":   int(megabytes / back.Seconds()),
			"ratio":         float64(int(float64(len(text))/float64(packed.Len())*1000)) / 1000,
		}))
	}
}
