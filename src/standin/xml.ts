/** Writes XML responses: text is escaped, element names are not. */
export function escapeXml(text: string): string {
  return /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (char) => entities[char] ?? char) : text;
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&apos;",
};

export function element(name: string, value: string | number | boolean): string {
  return `<${name}>${typeof value === "string" ? escapeXml(value) : value}</${name}>`;
}

export function list(name: string, itemName: string, items: readonly string[]): string {
  if (items.length === 0) return `<${name}/>`;
  return `<${name}>${items.map((item) => `<${itemName}>${item}</${itemName}>`).join("")}</${name}>`;
}

export const xmlHead = '<?xml version="1.0" encoding="UTF-8"?>\n';
