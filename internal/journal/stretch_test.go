package journal

import "testing"

func TestStretches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ list, want []stretch }{
		"nothing":     {nil, nil},
		"empty ones":  {[]stretch{{5, 5}, {7, 3}}, nil},
		"apart":       {[]stretch{{7, 9}, {1, 3}}, []stretch{{1, 3}, {7, 9}}},
		"touching":    {[]stretch{{3, 5}, {1, 3}, {5, 6}}, []stretch{{1, 6}}},
		"overlapping": {[]stretch{{1, 9}, {2, 4}, {8, 12}, {20, 21}}, []stretch{{1, 12}, {20, 21}}},
		"the same":    {[]stretch{{1, 9}, {1, 9}, {1, 2}}, []stretch{{1, 9}}},
	} {
		got := join(c.list)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
	// Each number is certain or doubtful or neither, and never both.
	for _, c := range []struct {
		opening, closing  boundary
		certain, doubtful []stretch
	}{
		{boundary{}, boundary{base: 10}, []stretch{{0, 10}}, nil},
		{boundary{base: 3, stretches: []stretch{{3, 5}}}, boundary{base: 10, stretches: []stretch{{10, 12}, {20, 22}}}, []stretch{{5, 10}}, []stretch{{3,
			5}, {10, 12}, {20, 22}}},
		{boundary{base: 3, stretches: []stretch{{3, 5}, {7, 8}, {11, 13}}}, boundary{base: 10}, []stretch{{5, 7}, {8, 10}}, []stretch{{3, 5}, {7, 8},
			{11, 13}}},
		{boundary{base: 3, stretches: []stretch{{3, 30}}}, boundary{base: 10, stretches: []stretch{{10, 12}}}, nil, []stretch{{3, 30}}},
		{boundary{base: 3, stretches: []stretch{{3, 5}}}, boundary{base: 3, stretches: []stretch{{3, 5}}}, nil, []stretch{{3, 5}}},
	} {
		certain, doubtful := within(c.opening, c.closing)
		for number := int64(1); number < 40; number++ {
			in := func(list []stretch) bool {
				for _, s := range list {
					if number > s.after && number <= s.through {
						return true
					}
				}
				return false
			}
			if in(certain) != in(c.certain) || in(doubtful) != in(c.doubtful) || in(certain) && in(doubtful) {
				t.Errorf("%v to %v: %v and %v, want %v and %v", c.opening, c.closing, certain, doubtful, c.certain, c.doubtful)
				break
			}
		}
	}
}
