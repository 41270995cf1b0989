# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads instead of a header: our plain comments as its own, line for line.
#   the lines at the top, and a block before an empty line   are of the file
#   a block before a declaration                             is of that and those below it, up to an empty line
#   a comment behind a declaration                           is of that alone
# Lines that are indented inside a comment, tables and code, stay as they are.
function escaped(text) {
  gsub(/[\\@<>#]/, "\\\\&", text)
  return text
}

# Code, with the comment behind it turned to it.
function code(line,    at) {
  if (line !~ /^ *[}#]/ && line !~ /\/\/ (NOLINT|IWYU)/ && (at = match(line, / +\/\/ /)))
    return substr(line, 1, at) "///< " escaped(substr(line, at + RLENGTH))
  return line
}

FNR == 1 { print "/** @file"; top = 1; next }
/^ *\/\/ (NOLINT|clang-format)/ { print ""; next }
/^ *\/\// {
  sub(/^ *\/\/ ?/, "")
  if (sub(/^Purpose: /, "")) $0 = toupper(substr($0, 1, 1)) substr($0, 2)
  block[++count] = $0
  next
}
count {
  words = ""
  verbatim = 0
  block[0] = block[count + 1] = ""
  for (i = 1; i <= count + 1; i++) {
    indented = block[i] ~ /^  /
    if (indented && !verbatim) block[i - 1] = block[i - 1] " @verbatim"
    if (verbatim && !indented && (block[i] != "" || i > count)) block[i - 1] = block[i - 1] " @endverbatim"
    verbatim = indented || (verbatim && block[i] == "")
    words = words " " escaped(block[i])
    if (!verbatim) block[i] = escaped(block[i])
  }
  of_file = /^$/ && !top
  if (of_file) print "/** @file"
  for (i = 1; i <= count; i++) print (i == 1 && !of_file && !top ? "/** " : "") block[i] (i == count ? " */" : "")
  if (!of_file) print code($0)
  if (top || of_file) words = ""
  match($0, /^ */)
  indent = RLENGTH
  count = top = 0
  ended = /[;}]( *\/\/.*)?$/
  next
}
/^ *$/ { words = "" }
{
  match($0, /^ */)
  again = words != "" && ended && RLENGTH == indent && !/^ *(}|#|public:|protected:|private:)/ && !/[;,}] +\/\/ /
  print (again ? "/**" words " */ " : "") code($0)
  ended = /[;}]( *\/\/.*)?$/
}
