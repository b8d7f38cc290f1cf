package p2p

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func view(self string, seeds []string, homes ...[]string) *View {
	v := &View{Self: self, Homes: homes}
	for _, name := range seeds {
		v.Members = append(v.Members, Member{Name: name, Seed: true})
	}
	if len(homes) > 0 {
		for _, name := range homes[len(homes)-1] {
			v.Members = append(v.Members, Member{Name: name})
		}
	}
	return v
}

func TestHolders(t *testing.T) {
	abc, ab := []string{"a", "b", "c"}, []string{"a", "b"}
	for _, row := range []struct {
		what  string
		view  *View
		index int
		home  string
		want  []string
	}{
		{"nobody else", view("a", nil, []string{"a"}), 0, "a", nil},
		{"from the beginning nobody has anything", view("a", nil, abc), 3, "a", nil},
		{"each piece has another home", view("a", nil, abc), 4, "b", nil},
		{"somebody came: the one before may have it", view("c", nil, ab, abc), 2, "c", []string{"a"}},
		{"we were it ourselves", view("a", nil, ab, abc), 0, "a", nil},
		{"somebody went: he may have given it to everybody", view("a", nil, abc, ab), 2, "a", []string{"b"}},
		{"somebody went who never had it", view("a", nil, abc, ab), 0, "a", nil},
		{"seeds have everything", view("a", []string{"x", "y"}, []string{"a"}), 1, "a", []string{"y", "x"}},
		{"too much has happened", &View{Self: "a", Members: []Member{{Name: "a"}, {Name: "b"}}, Homes: [][]string{ab}, Since: true}, 0, "a", []string{"b"}},
	} {
		t.Run(row.what, func(t *testing.T) {
			var got []string
			for _, m := range row.view.Holders(row.index) {
				got = append(got, m.Name)
			}
			if home := row.view.Owner(row.index); home != row.home || !slices.Equal(got, row.want) {
				t.Errorf("%s at home, and %v may have it; want %s, %v", home, got, row.home, row.want)
			}
		})
	}
}

// TestHoldersFind: whatever happened among members, whoever is home now asks somebody that has the piece, if one that is there
// has it: its homes read it, and gave it to whoever was there.
func TestHoldersFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var homes [][]string
		now := []string{"m0"}
		holds := map[string]bool{}
		index := rapid.IntRange(0, 50).Draw(t, "index")
		for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
			homes = append(homes, slices.Clone(now))
			if rapid.Bool().Draw(t, "read") { // the home reads it, and gives it to some
				home := ownerAmong(now, index)
				if len(holds) == 0 {
					holds[home] = true
				}
				if holds[home] {
					for _, name := range now {
						if rapid.Bool().Draw(t, "asks") {
							holds[name] = true
						}
					}
				}
			}
			if len(now) > 1 && rapid.Bool().Draw(t, "goes") {
				gone := rapid.IntRange(0, len(now)-1).Draw(t, "who")
				delete(holds, now[gone])
				now = slices.Delete(slices.Clone(now), gone, gone+1)
			} else {
				now = append(slices.Clone(now), fmt.Sprintf("m%d", i+1))
			}
		}
		homes = append(homes, now)
		v := view(ownerAmong(now, index), nil, homes...)
		asked := slices.ContainsFunc(v.Holders(index), func(m Member) bool { return holds[m.Name] })
		if len(holds) > 0 && !holds[v.Self] && !asked {
			t.Fatalf("%v have piece %d, and %s asks %v; homes %v", holds, index, v.Self, v.Holders(index), homes)
		}
	})
}
