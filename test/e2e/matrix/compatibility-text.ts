import { exists, FEATURES, type Feature, impossible } from './compatibility.ts';
import { type MatrixRevision, REVISIONS } from './revisions.ts';

const HEAD = `# What works between which revisions

Every client works with every server, in any revision. If a revision lacks what a feature needs, the table has the error code
that the client gets (–: servers of that revision do not have the feature). Each cell is a test with clients and servers of the
official SDKs, to the server over HTTP and stdio, on the server's own endpoint and on \`/mcp\` with two servers
(\`test/e2e/matrix\`), and again in a cluster of three nodes that take a client's requests in turn (\`test/cluster/matrix\`).
\`npm run generate\` generates this page from the table of the tests.
`;

/** `docs/reference/compatibility.md`, generated from the table that the tests use. */
export function compatibilityText(): string {
  const notes: string[] = [];
  const features = (Object.keys(FEATURES) as Feature[]).map((feature) => [feature, table(feature, notes)] as const);
  const everywhere = features.filter(([, text]) => text === null).map(([feature]) => `- ${FEATURES[feature]}`);
  const partly = features
    .filter(([, text]) => text !== null)
    .map(([feature, text]) => `## ${capital(FEATURES[feature])}\n\n${text}\n`);
  return [
    HEAD,
    `## Between all revisions\n\n${everywhere.join('\n')}\n`,
    ...partly,
    `## Notes\n\n${notes.map((note, i) => `${i + 1}. ${note}`).join('\n')}\n`,
  ].join('\n');
}

/** Rows are clients, columns servers; null where everything works. */
function table(feature: Feature, notes: string[]): string | null {
  const cells = REVISIONS.map((client) => REVISIONS.map((server) => cell(feature, client, server, notes)));
  if (cells.flat().every((text) => text === 'works')) return null;
  const lines = [
    ['client \\ server', ...REVISIONS],
    REVISIONS.map(() => '---').concat('---'),
    ...REVISIONS.map((client, i) => [client, ...cells[i]!]),
  ];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function cell(feature: Feature, client: MatrixRevision, server: MatrixRevision, notes: string[]): string {
  if (!exists(feature, server)) return '–';
  const exception = impossible(feature, client, server);
  if (exception === null) return 'works';
  if (!notes.includes(exception.why)) notes.push(exception.why);
  return `${exception.code} (${notes.indexOf(exception.why) + 1})`;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
