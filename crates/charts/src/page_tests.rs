use super::*;

fn line<'a>(layout: &'a str, durability: &'a str, partitions: u32, work: &'a str) -> Measured<'a> {
    Measured {
        layout,
        durability,
        partitions,
        size: 100,
        producers: 1,
        work,
        mb_per_second: 1.0,
        records_per_second: 10.0,
        ack_p50_us: None,
        ack_p99_us: None,
        client_cpu_s_per_gb: Some(0.5),
        broker_cpu_s_per_gb: None,
    }
}

fn page() -> String {
    let mut lines = Vec::new();
    for work in ["ack", "produce", "consume"] {
        for (layout, partitions) in [("partition", 1), ("partition", 64), ("<shared>", 1)] {
            lines.extend(["os", "disk"].map(|durability| line(layout, durability, partitions, work)));
        }
    }
    render(&lines, "a <machine>")
}

/// Elements that have no end tag, in HTML or because they end themselves.
const EMPTY: [&str; 2] = ["meta", "!doctype"];

/// Whether every element ends, in order.
fn check_elements(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("an end of each tag");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{piece}");
            continue;
        }
        let name = tag.split_whitespace().next().unwrap();
        if !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} do not end");
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let page = page();
    check_elements(&page);
    assert!(page.contains("&lt;shared&gt;") && !page.contains("<shared>") && page.contains("a &lt;machine&gt;"));
    for fetched in ["http:", "https:", "<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    assert!(page.contains("name=\"viewport\"") && page.contains("prefers-color-scheme:dark"));
}

#[test]
fn a_name_has_one_colour_and_a_line_in_each_chart_that_it_is_part_of() {
    let page = page();
    let first = page.split("<figure>").nth(1).unwrap();
    assert_eq!(first.matches("<polyline").count(), 2, "{first}");
    assert!(first.contains("produce, os, 100 bytes, 1 producer<"), "{first}");
    for chart in page.split("<figure>").skip(1).filter(|chart| chart.contains("&lt;shared&gt;</span>")) {
        assert!(chart.contains("<i class=\"c1\"></i>&lt;shared&gt;"), "{chart}");
    }
    assert_eq!(page.matches("<h2>Does producing slow down").count(), 1);
}

#[test]
fn without_results_there_is_a_page_without_charts() {
    let page = render(&[], "");
    check_elements(&page);
    assert!(!page.contains("<figure>"));
}
