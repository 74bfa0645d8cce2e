/** Characters two columns wide: those that Unicode calls wide or full-width, and emoji. */
const WIDE =
  /^[\p{Emoji_Presentation}\u1100-\u115f\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6b\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d376}\u{1f200}-\u{1f265}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u;
const NONE = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]$/u;
const COLOUR = /\x1b\[[\d;]*m/g;
const PIECES = /\x1b\[[\d;]*m|[\s\S]/gu;
const PLAIN = /^[\x20-\x7e]*$/;

/** Columns that the text takes on a terminal; colours take none. For joined emoji, where terminals differ, the maximum. */
export function displayWidth(text: string): number {
  const seen = text.replaceAll(COLOUR, '');
  if (PLAIN.test(seen)) return seen.length;
  let width = 0;
  for (const character of seen) width += widthOf(character);
  return width;
}

/** Cuts the text to this width, with `…` in place of the rest. Keeps the colour codes of the rest. */
export function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let left = columns - 1;
  let shown = '';
  let full = columns < 1;
  for (const [piece] of text.matchAll(PIECES)) {
    if (piece.length > 2) {
      shown += piece;
      continue;
    }
    const width = widthOf(piece);
    if (!full && width > left) {
      full = true;
      shown += '…';
    }
    if (full) continue;
    left -= width;
    shown += piece;
  }
  return shown;
}

/** Pads or cuts the text to exactly this width; with `end` aligns it to the right. */
export function padOrTruncate(text: string, columns: number, end = false): string {
  const shown = truncate(text, columns);
  const blank = ' '.repeat(Math.max(0, columns - displayWidth(shown)));
  return end ? blank + shown : shown + blank;
}

function widthOf(character: string): number {
  return NONE.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
}
