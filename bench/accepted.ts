const HEADING = '### ';

/** The text of RESULTS.md where these tables replace those of the same scenarios; each table names its run. */
export function accepted(text: string, tables: readonly string[], run: string, order: readonly string[]): string {
  const [head = '', ...before] = text.split(`\n${HEADING}`);
  const sections = new Map(before.map((section) => [nameOf(section), section.trim()]));
  for (const table of tables) {
    const section = table.slice(HEADING.length);
    sections.set(nameOf(section), `${section}\n\n${run}`);
  }
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  const sorted = [...sections].sort(([one], [other]) => place(one) - place(other));
  return `${head.trim()}\n\n${sorted.map(([, section]) => `${HEADING}${section}\n`).join('\n')}`;
}

/** A scenario's heading is `name: title`. */
function nameOf(section: string): string {
  return section.slice(0, section.indexOf(':'));
}
