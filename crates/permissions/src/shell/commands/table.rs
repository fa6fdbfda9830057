//! The read-only programs whose options and operands a table describes.
//!
//! What is left out is left out on purpose; see the comments at the entries.

use super::options::{Globs, Operands, Spec};

/// Creates an entry of the table; [`super::options`] explains the notation of `short` and `long`.
const fn spec(
    name: &'static str,
    short: &'static str,
    long: &'static str,
    operands: Operands,
    globs: Globs,
) -> Spec {
    Spec { name, short, long, operands, globs }
}

use Globs::{Anchored, Any};
use Operands::{
    Files, None as Nothing, OneFile, PatternThenFiles, PatternThenTrees, PlainFiles, Text, Trees,
};

const GREP_SHORT: &str = "EFGPivwxcLloqshHnbTZzaIryUe:f@m+A+B+C+#";
const GREP_LONG: &str = "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match \
 word-regexp line-regexp count color? colour? files-without-match files-with-matches max-count+ \
 only-matching quiet silent no-messages byte-offset with-filename no-filename label= line-number \
 initial-tab null after-context+ before-context+ context+ text binary-files= exclude= \
 exclude-dir= include= recursive regexp= file@ null-data line-buffered";
const SUM_LONG: &str = "binary text check tag zero ignore-missing quiet status strict warn";

pub(super) const TABLE: &[Spec] = &[
    spec(
        "ls",
        "1AaBbCcdFfGghHiI:klmNnopQqRrSsT+tUuvw+XxZ",
        "all almost-all author escape block-size= ignore-backups color? directory file-type \
         classify? full-time group-directories-first no-group human-readable si hide= \
         indicator-style= inode ignore= kibibytes literal numeric-uid-gid hide-control-chars \
         show-control-chars quote-name quoting-style= reverse recursive size sort= time= \
         time-style= tabsize+ width+ context zero format= help version",
        Trees,
        Any,
    ),
    spec(
        "cat",
        "AbEensTtuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        Files,
        Any,
    ),
    spec("pwd", "LP", "", Nothing, Any),
    spec("head", "n+c+qvz#", "lines+ bytes+ quiet silent verbose zero-terminated", Files, Any),
    spec(
        "tail",
        "n+c+qvzfF#s+",
        "lines+ bytes+ quiet silent verbose zero-terminated follow? retry pid+",
        Files,
        Any,
    ),
    spec("wc", "cmlLw", "bytes chars lines max-line-length words total=", Files, Any),
    spec("grep", GREP_SHORT, GREP_LONG, PatternThenFiles, Any),
    spec("egrep", GREP_SHORT, GREP_LONG, PatternThenFiles, Any),
    spec("fgrep", GREP_SHORT, GREP_LONG, PatternThenFiles, Any),
    // Left out: --pre, --hostname-bin, -z (run programs), -L/--follow (leaves the tree).
    spec(
        "rg",
        "aSsivwxFPUclnNoqHIhpu0e:f@g:t:T:m+A+B+C+j+M+d+r:E:",
        "text smart-case case-sensitive ignore-case invert-match word-regexp line-regexp \
         fixed-strings pcre2 multiline multiline-dotall count count-matches files-with-matches \
         files-without-match files line-number no-line-number only-matching quiet with-filename \
         no-filename pretty unrestricted null hidden no-hidden no-ignore no-ignore-vcs \
         no-ignore-global no-ignore-parent no-messages regexp= file@ glob= iglob= type= type-not= \
         type-list max-count+ after-context+ before-context+ context+ threads+ max-columns+ \
         max-columns-preview max-depth+ max-filesize+ replace= encoding= color= colors= column \
         no-column heading no-heading trim json stats passthru sort= sortr= vimgrep crlf engine= \
         no-config one-file-system version glob-case-insensitive binary no-unicode \
         context-separator= field-match-separator=",
        PatternThenTrees,
        Anchored,
    ),
    // Left out: -o, -T, --compress-program, --files0-from.
    spec(
        "sort",
        "bdfgihMnRrVcCmsuzk:t:S:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort \
         ignore-nonprinting human-numeric-sort month-sort numeric-sort random-sort reverse \
         version-sort sort= check? merge stable unique zero-terminated key= field-separator= \
         buffer-size= parallel+ debug",
        Files,
        Anchored,
    ),
    // A second operand would be written.
    spec(
        "uniq",
        "cdDuizf+s+w+",
        "count repeated all-repeated? unique ignore-case zero-terminated skip-fields+ skip-chars+ \
         check-chars+ group?",
        OneFile,
        Anchored,
    ),
    spec(
        "cut",
        "b:c:d:f:nsz",
        "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= \
         zero-terminated",
        Files,
        Any,
    ),
    spec("tr", "cCdst", "complement delete squeeze-repeats truncate-set1", Text, Any),
    // Left out: -l/--paginate, which runs pr; --to-file and --from-file; -r, which follows links.
    spec(
        "diff",
        "abBcC+dEeF:iI:nNpqstTuU+vwW+yZx:#",
        "normal brief report-identical-files context? unified? ed rcs side-by-side width+ \
         left-column suppress-common-lines show-c-function show-function-line= label= expand-tabs \
         initial-tab tabsize+ suppress-blank-empty no-dereference new-file \
         unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude= \
         starting-file= ignore-case ignore-tab-expansion ignore-trailing-space \
         ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines= text \
         strip-trailing-cr minimal horizon-lines+ speed-large-files color? palette=",
        PlainFiles,
        Anchored,
    ),
    spec("stat", "c:ft", "format= printf= file-system terse cached=", Files, Any),
    // Left out: -C (compiles a magic file), -m and -f (read one), -p (changes times), -z (unpacks), -s.
    spec(
        "file",
        "bEhikNnrv0F:e:",
        "brief no-dereference mime mime-type mime-encoding keep-going no-pad no-buffer raw print0 \
         separator= extension exclude= exclude-quiet=",
        Files,
        Anchored,
    ),
    spec(
        "du",
        "abcd+hkmsSx0t+B:P",
        "all apparent-size bytes block-size= total max-depth+ human-readable inodes kilobytes \
         summarize separate-dirs one-file-system null threshold+ time? time-style= exclude= si \
         no-dereference",
        Trees,
        Any,
    ),
    spec(
        "df",
        "aB:hHiklmPt:Tx:",
        "all block-size= human-readable si inodes local portability print-type total type= \
         exclude-type= output? no-sync",
        Text,
        Anchored,
    ),
    spec("which", "as", "all", Text, Anchored),
    spec("type", "afptP", "", Text, Anchored),
    spec("whoami", "", "", Nothing, Any),
    spec("id", "gGnruz", "group groups name real user zero", Text, Anchored),
    spec(
        "uname",
        "asnrvmpio",
        "all kernel-name nodename kernel-release kernel-version machine processor \
         hardware-platform operating-system",
        Nothing,
        Any,
    ),
    // An operand would set the name.
    spec("hostname", "sfdiIA", "short fqdn long domain ip-address all-ip-addresses", Nothing, Any),
    // Left out: -o, -R (writes 00Tree.html), -l (follows links), --fromfile and the like.
    spec(
        "tree",
        "aCdDfFghiIJL+nNpP:qQrstuUvxXI:",
        "dirsfirst filesfirst noreport prune du si gitignore sort= filelimit+ matchdirs \
         ignore-case inodes device charset= timefmt= metafirst",
        Trees,
        Anchored,
    ),
    spec("basename", "as:z", "multiple suffix= zero", Text, Any),
    spec("dirname", "z", "zero", Text, Any),
    spec(
        "realpath",
        "eLmPqsz",
        "canonicalize-existing canonicalize-missing logical physical quiet strip zero",
        Files,
        Any,
    ),
    spec(
        "readlink",
        "efmnqsvz",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent zero",
        Files,
        Any,
    ),
    spec("true", "", "", Text, Anchored),
    spec("false", "", "", Text, Anchored),
    spec("sleep", "", "", Text, Anchored),
    spec(
        "nl",
        "b:d:f:h:i+l+n:ps:v+w+",
        "body-numbering= number-format= number-separator= number-width+",
        Files,
        Any,
    ),
    spec(
        "od",
        "A:j+N+t:vw?abcdfiloshx",
        "address-radix= skip-bytes+ read-bytes+ format= output-duplicates width?",
        Files,
        Any,
    ),
    spec("hexdump", "bcCdoxn+s+v", "canonical length+ skip+ no-squeezing", Files, Any),
    spec("strings", "afn+t:e:ow#", "all print-file-name bytes+ radix= encoding=", Files, Anchored),
    spec("md5sum", "bctwz", SUM_LONG, Files, Any),
    spec("sha1sum", "bctwz", SUM_LONG, Files, Any),
    spec("sha256sum", "bctwz", SUM_LONG, Files, Any),
    spec("sha512sum", "bctwz", SUM_LONG, Files, Any),
    spec("base64", "dw+", "decode wrap+", Files, Anchored),
    spec(
        "column",
        "txns:c+o:N:R:",
        "table separator= output-separator= table-columns= table-right=",
        Files,
        Anchored,
    ),
    spec("paste", "d:sz", "delimiters= serial zero-terminated", Files, Any),
    spec("comm", "123z", "check-order nocheck-order output-delimiter= total zero-terminated", Files, Any),
    spec("seq", "f:s:w", "format= separator= equal-width", Text, Anchored),
    spec("cal", "13ymjsA+B+", "one three year monday sunday julian", Text, Anchored),
    spec("uptime", "ps", "pretty since", Nothing, Any),
    spec("free", "bkmghtwl", "bytes kibi mebi gibi human si total wide lohi", Nothing, Any),
    spec("nproc", "", "all ignore+", Nothing, Any),
    spec("arch", "", "", Nothing, Any),
    spec("groups", "", "", Text, Anchored),
    spec("locale", "amck", "all-locales charmaps category-name keyword-name", Text, Anchored),
    spec("tac", "brs:", "before regex separator=", Files, Any),
    spec("rev", "", "", Files, Any),
    spec("fold", "bsw+", "bytes spaces width+", Files, Any),
    spec("cmp", "bi+ln+s", "print-bytes ignore-initial+ verbose bytes+ quiet silent", Files, Anchored),
    spec(
        "pgrep",
        "aflnoxcvu:U:g:P:t:s:G:d:",
        "list-name list-full full newest oldest exact count parent= euid= uid= delimiter=",
        Text,
        Anchored,
    ),
    spec("netstat", "tulnpaersi46", "tcp udp listening numeric programs all route statistics", Nothing, Any),
    // Left out: -K (closes sockets), -D (writes a file), -F (reads one).
    spec(
        "ss",
        "tulnpaemisxw046oHrO",
        "tcp udp listening numeric processes all extended memory info summary unix raw ipv4 ipv6 \
         options no-header oneline",
        Nothing,
        Any,
    ),
];
