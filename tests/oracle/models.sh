# What check_oracle.sh and rebuild.sh share: the models, and how ctrc is asked for them. Expects $here and $root.

all_models="wdl deepfm dlrm din din_clipped dien mmoe adult bank"

# source_of MODEL DIR: its .ctr file, as it is but for two. In 20 steps no gradient of din.ctr gets as long as the 5
# where it clips; din_clipped clips most of them. mmoe.ctr's largest tables have fewer rows here, or each of the 20
# checkpoints would take 150 MB.
source_of() {
  case $1 in
    din_clipped) edited din "$1" "s|clip_norm = 5|clip_norm = 0.05|" "$2" ;;
    mmoe) edited mmoe "$1" "s|, 100000)|, 1000)|" "$2" ;;
    *) echo "$root/models/$1.ctr" ;;
  esac
}
edited() { # FROM TO SED DIR
  sed "$3; s|import \"|&$root/models/|" "$root/models/$1.ctr" > "$4/$2.ctr"
  ! cmp -s "$root/models/$1.ctr" "$4/$2.ctr" && echo "$4/$2.ctr"
}

# arguments_of MODEL DIR: one a line, the file first, but for the settings, which the record has
arguments_of() {
  source_of "$1" "$2"
  case $1 in din* | dien) printf '%s\n' -D "logs=$here" ;; esac
}
