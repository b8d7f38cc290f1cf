package slurmconf

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestParse: lines as Slurm 22.05 reads them.
func TestParse(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"Prolog=/a", "1 Prolog=/a|"},
		{"  pROLOG \t= /a  ", "1 pROLOG=/a|"},
		{"\nProlog=\"/a b\" # c", "2 Prolog=/a b|"},
		{"Prolog=/a b c", "1 Prolog=/a|b c"},
		{"Prolog=\"/a", "1 Prolog=\"/a|"},
		{"#Prolog=/a", ""},
		{"Prolog=/a#b", "1 Prolog=/a|"},
		{`Prolog=/a\#b`, "1 Prolog=/a#b|"},
		{"Prolog=\\\n/a\nEpilog=/b", "1 Prolog=/a|;3 Epilog=/b|"},
		{"Prolog=/a\\\n", "1 Prolog=/a|"},
		{"Prolog=/a \\ # b\nEpilog=/b", `1 Prolog=/a|\;2 Epilog=/b|`},
		{"Key+=x", "1 Key=x|"},
		{"Prolog=", "1 Prolog=|"},
		{"Prolog", ""},
		{"=x", ""},
		{"ä=x", ""},
		{"Prolog=/a\r\nEpilog=/b\r\n", "1 Prolog=/a|;2 Epilog=/b|"},
		{"NodeName=n[1-2] CPUs=8", "1 NodeName=n[1-2]|CPUs=8"},
	} {
		if got := printed(parsed(row.text)); got != row.want {
			t.Errorf("%q: %q, want %q", row.text, got, row.want)
		}
	}
}

func parsed(text string) (all []Setting) {
	for _, at := range lines(text) {
		if s, ok := setting(at.text); ok {
			s.Line = at.number
			all = append(all, s)
		}
	}
	return all
}

func printed(all []Setting) string {
	var words []string
	for _, s := range all {
		words = append(words, fmt.Sprintf("%d %s=%s|%s", s.Line, s.Key, s.Value, s.Rest))
	}
	return strings.Join(words, ";")
}

func TestInclude(t *testing.T) {
	for _, row := range []struct {
		text string
		want string // the file; "" is none
	}{
		{"Include a.conf", "/etc/slurm/a.conf"},
		{"\tinclude\t /x/../y.conf # z", "/y.conf"},
		{"INCLUDE %c.conf", "/etc/slurm/lab.conf"},
		{"IncludeX a.conf", ""},
		{"Include", ""},
	} {
		conf, _, wrong := load(fstest.MapFS{
			"etc/slurm/slurm.conf": {Data: []byte("ClusterName=lab\n" + row.text)}, "etc/slurm/a.conf": {Data: []byte("X=/etc/slurm/a.conf")},
			"y.conf": {Data: []byte("x=/y.conf")}, "etc/slurm/lab.conf": {Data: []byte("x=/etc/slurm/lab.conf")},
		}, "/etc/slurm/slurm.conf")
		if got := conf.value("X", ""); got != row.want || len(wrong) > 0 {
			t.Errorf("%q: %q, %v", row.text, got, wrong)
		}
	}
	// One that is included includes what lies beside itself, and the last value counts.
	conf, from, wrong := load(fstest.MapFS{"slurm.conf": {Data: []byte("X=1\nInclude d/a")}, "d/a": {Data: []byte("Include b\nX=3")}, "d/b": {Data: []byte("X=2")}, "b": {Data: []byte("X=4")}}, "/slurm.conf")
	if got := printed(conf.all("X")); got != "1 X=1|;1 X=2|;2 X=3|" || len(wrong) > 0 || conf.value("x", "") != "3" || !slices.Equal(from, []string{"/slurm.conf", "/d/a", "/d/b"}) {
		t.Errorf("%q, %v, %v", got, from, wrong)
	}
}

// TestBounds: neither size nor includes are without end.
//
//safety:6 with test/slurm TestDeploy
func TestBounds(t *testing.T) {
	files := fstest.MapFS{
		"large.conf": {Data: make([]byte, bytesMost+1)},
		"many.conf":  {Data: []byte(strings.Repeat("Include leaf.conf\n", 10_000))},
		"leaf.conf":  {Data: []byte("X=1\n")},
		"deep.conf":  {Data: []byte("Include deep.conf\nInclude deep.conf\n")},
		"fifo.conf":  {Mode: fs.ModeNamedPipe},
	}
	for _, row := range []struct{ file, want string }{
		{"/large.conf", "more than"}, {"/many.conf", "without end"}, {"/deep.conf", "without end"}, {"/fifo.conf", "no regular file"}, {"/../../nothing", "is not there"},
	} {
		_, _, wrong := load(files, row.file)
		if len(wrong) == 0 || len(wrong) > 10 || !strings.Contains(wrong[0].Detail, row.want) {
			t.Errorf("%s: %v", row.file, wrong)
		}
	}
}

//safety:6 with test/slurm TestDeploy
func FuzzParse(f *testing.F) {
	f.Add("Prolog=/a \\\n b # c\nInclude x\nKey=\"v w\" rest")
	f.Fuzz(func(t *testing.T, text string) {
		var plain strings.Builder
		var want []Setting
		for _, s := range parsed(text) {
			if s.Line < 1 || s.Line > strings.Count(text, "\n")+1 || s.Key == "" || strings.ContainsAny(s.Key, " =\n#") {
				t.Fatalf("%q: %+v", text, s)
			}
			if strings.ContainsAny(s.Value, "\"\\#\n\r") { // what can not be written in quotes
				continue
			}
			want = append(want, Setting{Key: s.Key, Value: s.Value, Line: len(want) + 1})
			fmt.Fprintf(&plain, "%s=\"%s\"\n", s.Key, s.Value)
		}
		if got := parsed(plain.String()); !slices.Equal(got, want) {
			t.Errorf("%q is read back as %+v, want %+v", plain.String(), got, want)
		}
	})
}

// FuzzRead: whatever stands in the files, all is looked at within bounds, and findings can be shown.
//
//safety:6 with test/slurm TestDeploy
func FuzzRead(f *testing.F) {
	f.Add(base, "Include slurm.conf\nProlog=/etc/*", "Directive=DATAMOVE", "exec /x/datamove hook prolog", "../loop")
	from := newSite(f)
	f.Fuzz(func(t *testing.T, conf, more, burst, program, link string) {
		s := &site{files: maps.Clone(from.files)}
		s.put("/etc/slurm/slurm.conf", conf+"\nInclude more.conf\n", 0o644, 0)
		s.put("/etc/slurm/more.conf", more, 0o644, 5001)
		s.put("/etc/slurm/burst_buffer.conf", burst, 0o644, 0)
		s.put("/etc/slurm/burst_buffer.lua", program, 0o644, 0)
		s.put("/etc/slurm/datamove/prolog", program, 0o755, 0)
		s.put("/etc/loop", link, fs.ModeSymlink|0o777, 0)
		s.put("/etc/slurm/datamove/epilog", link, fs.ModeSymlink|0o777, 0)
		for _, host := range []string{"control", "node1", ""} {
			s.host = host
			found := s.judged()
			for _, finding := range found {
				if finding.Check == "" || finding.Detail == "" || (finding.Degree != Good) != (finding.Mend != "") {
					t.Errorf("%+v", finding)
				}
			}
		}
	})
}

// TestClusterName: the cluster is called as Slurm calls it, by the file that SLURM_CONF names, or that there is.
func TestClusterName(t *testing.T) {
	files := fstest.MapFS{
		"run/slurm/conf/slurm.conf": {Data: []byte("ClusterName=Alps # ours\nInclude more.conf\n")}, "run/slurm/conf/more.conf": {Data: []byte("SlurmctldHost=h\n")},
		"opt/slurm.conf": {Data: []byte("SlurmctldHost=h\nInclude none.conf\n")},
	}
	for conf, want := range map[string]string{"": "alps", "/opt/slurm.conf": "", "/none/slurm.conf": ""} {
		file := Find(files, func(string) string { return conf })
		if got := ClusterName(files, file); got != want {
			t.Errorf("%q is %s: %q and not %q", conf, file, got, want)
		}
	}
	if file := Find(fstest.MapFS{}, func(string) string { return "" }); file != "" {
		t.Errorf("without any: %s", file)
	}
}
