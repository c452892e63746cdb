"""Found by `make fuzz`; it was: wrong answer: refused what is right: fitonce: fit.json must ."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "files": {
        "fit.json": b'\xef\xbb\xbf{\n "format": "fitonce fit",\n "version": 1,\n "about": '
        b'{\n  "versions": {\n   "python": "3.11.7",\n   "fitonce": "0.2.0",\n'
        b'   "jax": "0.10.2",\n   "numpy": "2.4.6",\n   "scipy": "1.17.1",\n '
        b'  "pandas": "3.1.1"\n  }\n },\n "described": "HMM, 2 states, Poisso'
        b'n emission",\n "model": {\n  "is": "HMM",\n  "n_states": 2,\n  "emis'
        b'sion": {\n   "is": "Poisson"\n  },\n  "frozen": [],\n  "transition_c'
        b'ovariates": [],\n  "vanished": []\n },\n "kernel": null,\n "data": {'
        b'\n  "is": "Sequences",\n  "values": {\n   "array": {\n    "dtype": "'
        b'<f8",\n    "shape": [\n     1,\n     18,\n     1\n    ],\n    "zli'
        b'b": "eJxjYAADBwjFAaU/2ENoJShfAUqrQWkGNHUwfSoOqPo00NTj0gczX8kBAFobCH4'
        b'="\n   }\n  },\n  "observed": {\n   "array": {\n    "dtype": "|b1'
        b'",\n    "shape": [\n     1,\n     18,\n     1\n    ],\n    "zlib":'
        b' "eJxjZEQHAAC9ABM="\n   }\n  },\n  "lengths": {\n   "array": {\n    "'
        b'dtype": "<i8",\n    "shape": [\n     1\n    ],\n    "zlib": "eJwTYoA'
        b'AAACYABM="\n   }\n  },\n  "channels": [\n   "x0"\n  ],\n  "covaria'
        b'te_names": []\n },\n "fingerprint": "e48d939f60d90eb5bb31cb8affeef'
        b'af4",\n "names": [\n  "initial[0]",\n  "rate[0,0]",\n  "rate[1,0]",\n'
        b'  "transition[0,0]",\n  "transition[1,0]"\n ],\n "outcome": "statio'
        b'nary",\n "message": "gradient norm 1.6e-14, 2.5e-15 standard errors f'
        b'rom stationary, smallest eigenvalue of H 9.2e-02",\n "gradient_norm":'
        b' 1.5905048291580983e-14,\n "distance": 2.4732211404565597e-15,\n "'
        b'smallest_eigenvalue": 0.09157255505718963,\n "value": 42.170285062213'
        b'24,\n "seconds": 0.17611512599978596,\n "refit_seconds": 0.1349659'
        b'5600008732,\n "refit_most": 0.2301860535008018,\n "theta": {\n  "dt'
        b'ype": "<f8",\n  "shape": [\n   5\n  ],\n  "zlib": "eJwBKADX/6KCQupZI'
        b'gNAiNIYGvwP5j+UZlU6ZOMBQJVzEdvvf+k/jGC/t4oI7b9pqhMG"\n },\n "gradi'
        b'ent": {\n  "dtype": "<f8",\n  "shape": [\n   5\n  ],\n  "zlib": "eJxj'
        b'YACBBhsGCLCFUAJQetMeMHXghA0ANaIEeQ=="\n },\n "H": {\n  "dtype": "<f'
        b'8",\n  "shape": [\n   5,\n   5\n  ],\n  "zlib": "eJxb+jVHOrhwu/0DhSi7'
        b"rxmM+6c9+Maya3vhfiaPHMvjiur7zeQ01daaWsLlV2pqHT/AZ+zwJPhKV5/im/186+ca"
        b"ujKs36+3fx+z4+E1cP0w+ZCpB5Kv2AY6mHi7LpR/f2f/vePfOn0lzsDNh+mHyV88u+We"
        b'yw0GhwMvdJP4HkXZw+yHmQ/TD5P/bXVq7u0D3+0Bbf9h3w=="\n },\n "values_o'
        b'f_starts": [\n  42.17028506221347\n ],\n "optima": {\n  "thetas": {\n'
        b'   "dtype": "<f8",\n   "shape": [\n    1,\n    5\n   ],\n   "zlib": "'
        b"eJwBKADX/6KCQupZIgNAiNIYGvwP5j+UZlU6ZOMBQJVzEdvvf+k/jGC/t4oI7b9pqhMG"
        b'"\n  },\n  "values": {\n   "dtype": "<f8",\n   "shape": [\n    1\n'
        b'   ],\n   "zlib": "eJxjmrXo2WlRVwcAEM0Dig=="\n  },\n  "found": {\n  '
        b' "dtype": "<i8",\n   "shape": [\n    1\n   ],\n   "zlib": "eJxjZIAAA'
        b'AAQAAI="\n  },\n  "starts": 1,\n  "unseen": {\n   "float": "nan"\n  }'
        b'\n },\n "digest": "ea339909611ff54b7e3251e6d52c7df6f86d31d6464f0f7'
        b'80c7d603d732c16fa"\n}'
    },
    "words": ["cv", "fit.json", "--folds", "kfold", "--k", "3", "--json"],
    "plain": True,
}


def test_files_474ac5bb():
    require_sound("files", RECIPE)
